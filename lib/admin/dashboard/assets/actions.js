// The actions of users of the level admin: a button for each, a confirmation, and the request.
import { byId, element } from "./elements.js";

/** The actions of the whole server: name, button, question, consequence. */
const SERVER_ACTIONS = [
  [
    "flush",
    "Flush…",
    "Flush the cache?",
    "All items are hidden at once. Locked items stay until they are unlocked, and update tokens stay.",
  ],
  [
    "quarantine-on",
    "Quarantine on…",
    "Turn quarantine on?",
    "All items and locks go, and no key is cacheable until quarantine is turned off.",
  ],
  [
    "quarantine-off",
    "Quarantine off…",
    "Turn quarantine off?",
    "Keys are cacheable again. Make sure that no writer is out that the server does not know.",
  ],
];
const DROP = "drop-token";

/** The buttons of a user who may act. */
export class Actions {
  /**
   * @param allowed What the user may do, and the secret of requests.
   * @param changed Called after an action.
   */
  constructor({ secret, refusals }, changed) {
    this.secret = secret;
    this.refusals = refusals;
    this.changed = changed;
    byId("actions").hidden = false;
    for (const [name, title, question, consequence] of SERVER_ACTIONS) {
      if (!this.can(name)) continue;
      const button = element("button", { type: "button", textContent: title });
      button.addEventListener("click", () => this.ask(question, consequence, () => this.act(name)));
      byId("action-buttons").append(button);
    }
    const reasons = Object.entries(refusals).filter(([, reason]) => reason !== null);
    byId("action-refusals").append(
      ...reasons.map(([name, reason]) => element("li", { textContent: `${name}: ${reason}` })),
    );
    byId("confirm-cancel").addEventListener("click", () => byId("confirm").close());
    byId("confirm-do").addEventListener("click", () => {
      byId("confirm").close();
      this.confirmed();
    });
  }

  get canDrop() {
    return this.can(DROP);
  }

  can(name) {
    return this.refusals[name] === null;
  }

  /** Returns a button that drops an update token. */
  dropButton({ key, id, age, owner }) {
    const label = `Drop update token ${id} of key ${key}`;
    const button = element("button", { type: "button", textContent: "Drop…", "aria-label": label });
    button.addEventListener("click", () =>
      this.ask(
        `Drop update token ${id}?`,
        `Key ${key}, owner ${owner || "unnamed"}, out for ${age} s. Its owner may still write, ` +
          "and the cache could then keep the old value: end the writer and its database session first.",
        () => this.act(DROP, { key, id }),
      ));
    return button;
  }

  ask(question, consequence, confirmed) {
    this.confirmed = confirmed;
    byId("confirm-title").textContent = question;
    byId("confirm-text").textContent = consequence;
    byId("confirm").showModal();
    byId("confirm-cancel").focus();
  }

  async act(name, body = null) {
    const result = byId("action-result");
    result.textContent = "";
    try {
      const reply = await fetch(`/api/actions/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Leased-Secret": this.secret },
        body: JSON.stringify(body),
      });
      result.textContent = await reply.text();
    } catch {
      result.textContent = "the server does not answer: the action may have been done";
    }
    this.changed();
  }
}
