import { assertEquals, assertRejects } from "@std/assert";
import { mock } from "node:test";
import { Membership, type MembershipContext } from "../../../../lib/rows/nodes/membership.ts";
import { packDue, WAIT_TEXT } from "../../../../lib/rows/nodes/wire.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";
import { waitingFor } from "../../../support/waiting.ts";
import { blockReply, HostileOrigin } from "./hostile_origin.ts";

// A membership of an origin that the test plays. The timers of the node are moved by the test.

const MEMBER_MS = 1000;
const EMPTY_DUE = blockReply(packDue({ seq: 0, grantedMs: MEMBER_MS, keys: [], prefixes: [] }));

/** A membership, and what it tells. */
class Node implements AsyncDisposable {
  readonly events: string[] = [];
  /** The pauses between its attempts, in milliseconds. */
  readonly pausesMs: number[] = [];
  readonly membership: Membership;
  deadlineMs = 0;
  #told = (): void => {};
  #run: Promise<void> | undefined;

  /** Level and message of each event. */
  readonly messages: string[] = [];
  /** Until when the node may serve rows, at each event. */
  readonly deadlinesMs: number[] = [];
  /** Resolves when its rows are deleted. */
  deleting: Promise<void> | undefined;

  constructor(
    origins: { readonly port: number } | readonly { readonly port: number }[],
    timeoutMs: number,
    login: MembershipContext["dial"]["login"] = null,
  ) {
    const world: MembershipContext = {
      right: {
        nowMs: () => 0,
        renew: (deadlineMs) => this.deadlineMs = deadlineMs,
        end: () => this.deadlineMs = -1,
      },
      name: "one",
      prefixes: [""],
      expiry: "refuse",
      dial: { timeoutMs, login, caCert: null },
      delete: () => this.deleting,
      report: ({ event, level, message }) => {
        this.events.push(event);
        this.messages.push(`${level} ${message}`);
        this.deadlinesMs.push(this.deadlineMs);
        this.#told();
      },
      sleep: (ms) => {
        this.pausesMs.push(ms);
        this.#told();
        return Promise.resolve();
      },
    };
    const addresses = [origins].flat().map(({ port }, index) => ({
      name: index === 0 ? "origin" : `origin${index + 1}`,
      hostname: "127.0.0.1",
      port,
    }));
    this.membership = new Membership(addresses, world);
  }

  start(): void {
    this.#run = this.membership.run();
  }

  async event(name: string): Promise<void> {
    await this.#until(`event ${name}`, () => this.events.includes(name));
  }

  /** Returns its first pause, in milliseconds. */
  async firstPauseMs(): Promise<number> {
    await this.#until("a pause", () => this.pausesMs.length > 0);
    return this.pausesMs[0]!;
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    while (!holds()) {
      await waitingFor(what, new Promise<void>((resolve) => this.#told = resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const stopping = this.membership.stop();
    // Those that wait for an answer go on.
    mock.timers.tick(100 * MEMBER_MS);
    mock.timers.reset();
    await stopping;
    await this.#run;
  }
}

// The shorter of the two times: the answer to a question comes within a quarter of the member time.
for (
  const [timeoutMs, name] of [[60 * MEMBER_MS, "member time"], [MEMBER_MS / 2, "time-out"]] as const
) {
  Deno.test(`an origin that is silent is left after its ${name}, when it is the shorter one`, async () => {
    using origin = new HostileOrigin({ memberMs: MEMBER_MS });
    origin.replies.set("poll", () => null);
    mock.timers.enable({ apis: ["setTimeout"] });
    await using node = new Node(origin, timeoutMs);
    node.start();
    for (let question = 1; question <= 2; question++) {
      await origin.asked("poll", question);
      assertEquals(node.events, ["joined_origin"]);
      mock.timers.tick(Math.min(timeoutMs, MEMBER_MS) - 1);
      assertEquals(origin.closed, question - 1);
      mock.timers.tick(1);
      await origin.hasClosed(question);
    }
    await node.event("left_origin");
    assertEquals(node.deadlineMs, 0);
  });
}

Deno.test("a node that must wait is no member, and asks until it may join", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  const join = origin.replies.get("join")!;
  let refusals = 0;
  origin.replies.set(
    "join",
    (request) => refusals++ < 3 ? `SERVER_ERROR ${WAIT_TEXT}\r\n` : join(request),
  );
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  assertEquals(await node.membership.begin(), false);
  node.start();
  await node.event("joined_origin");
  assertEquals([refusals, node.events], [4, ["left_origin", "joined_origin"]]);
});

for (
  const [what, reply, pauseMs] of [
    ["malformed", "NODE 1\r\nx", 1000],
    ["longer than any renewal", "NODE 2000000000\r\n", 1000],
    ["no error", "STORED\r\n", 1000],
    ["an error", "SERVER_ERROR the database is down\r\n", 100],
  ] as const
) {
  Deno.test(`a node joins again after ${pauseMs} ms when the answer to its poll is ${what}`, async () => {
    using origin = new HostileOrigin({ memberMs: MEMBER_MS });
    origin.replies.set("poll", () => reply);
    mock.timers.enable({ apis: ["setTimeout"] });
    await using node = new Node(origin, MEMBER_MS);
    node.start();
    assertEquals(await node.firstPauseMs(), pauseMs);
    assertEquals(node.events.slice(0, 2), ["joined_origin", "left_origin"]);
  });
}

Deno.test("a node pauses between empty answers that come at once", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  origin.replies.set("poll", () => EMPTY_DUE);
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("poll", 3);
  assertEquals(node.pausesMs.slice(0, 2), [1, 1]);
  assertEquals(node.events, ["joined_origin"]);
});

Deno.test("origins are tried in their order; the first that takes the node has it, and what it says is told", async () => {
  using first = new HostileOrigin({ memberMs: MEMBER_MS });
  using second = new HostileOrigin({ memberMs: MEMBER_MS });
  first.replies.set("join", () => `SERVER_ERROR ${WAIT_TEXT}\r\n`);
  let joins = 0;
  const join = second.replies.get("join")!;
  second.replies.set("join", (request) => (joins++, join(request)));
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node([first, second], MEMBER_MS);
  const { membership } = node;
  assertEquals(membership.problem, "no membership of origin, origin2");
  assertEquals([await membership.begin(), membership.joins, joins], [true, 1, 1]);
  assertEquals(membership.client?.name, "origin2");
  assertEquals(node.messages, ["info node one is a member of origin origin2"]);
});

Deno.test("without an origin the reasons of all are told once; one that refuses the node ends the start", async () => {
  using first = new HostileOrigin({ memberMs: MEMBER_MS });
  using second = new HostileOrigin({ memberMs: MEMBER_MS });
  for (const origin of [first, second]) {
    origin.replies.set("join", () => `SERVER_ERROR ${WAIT_TEXT}\r\n`);
  }
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node([first, second], MEMBER_MS);
  for (let time = 0; time < 2; time++) assertEquals(await node.membership.begin(), false);
  const both = `no membership of origin, origin2: origin: ${WAIT_TEXT}; origin2: ${WAIT_TEXT}`;
  assertEquals(node.membership.problem, both);
  assertEquals(node.messages, [`warning node one has ${both}; rows are errors until it is back`]);
  first.replies.set("join", () => "SERVER_ERROR --rows of the node: a:\r\n");
  let asked = 0;
  second.replies.set("join", () => (asked++, "SERVER_ERROR no\r\n"));
  await assertRejects(() => node.membership.begin(), Error, "origin: --rows of the node: a:");
  assertEquals([asked, node.membership.problem], [
    0,
    "no membership of origin, origin2: origin: --rows of the node: a:",
  ]);
});

Deno.test("a node that ends signs off with its session, and closes its connections", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  mock.timers.enable({ apis: ["setTimeout"] });
  const node = new Node(origin, MEMBER_MS);
  assertEquals(await node.membership.begin(), true);
  assertEquals(node.deadlineMs, MEMBER_MS);
  await node.membership.stop();
  await origin.asked("leave");
  // One of the join, one of the end.
  await origin.hasClosed(2);
  assertEquals([node.deadlineMs, node.membership.flows.session], [-1, ""]);
  mock.timers.reset();
});

Deno.test("the pauses between attempts double up to a quarter of a second, and begin anew after a membership", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  const join = origin.replies.get("join")!;
  let joins = 0;
  origin.replies.set(
    "join",
    (request) => ++joins % 4 === 0 ? join(request) : `SERVER_ERROR ${WAIT_TEXT}\r\n`,
  );
  origin.replies.set("poll", () => "SERVER_ERROR down\r\n");
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("join", 9);
  assertEquals(node.pausesMs.slice(0, 6), [100, 200, 250, 100, 200, 250]);
  assertEquals(node.messages.filter((message) => message.startsWith("info")), [
    "info node one is a member of origin origin",
    "info node one is a member of origin origin again, without rows",
  ]);
});

Deno.test("a node that joins again names its session before: the origin ends that one", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  const before: string[] = [];
  origin.replies.set("join", ({ block }) => {
    before.push((JSON.parse(latin1Text(block)) as { session: string }).session);
    const session = `${before.length}-secret`;
    return blockReply(JSON.stringify({ session, grantedMs: MEMBER_MS, memberMs: MEMBER_MS }));
  });
  origin.replies.set("poll", () => "SERVER_ERROR down\r\n");
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("join", 4);
  assertEquals(before.slice(0, 3), ["", "1-secret", "2-secret"]);
});

Deno.test("a node whose session is over leaves at once, may serve nothing from then on, and says so each time", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  const asked: string[] = [];
  const join = origin.replies.get("join")!;
  origin.replies.set("join", (request) => (asked.push("join"), join(request)));
  origin.replies.set("poll", () => (asked.push("poll"), "NOT_FOUND\r\n"));
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("join", 3);
  assertEquals(asked.slice(0, 5), ["join", "poll", "join", "poll", "join"]);
  const events = ["joined_origin", "left_origin", "joined_origin", "left_origin"];
  assertEquals(node.events.slice(0, 4), events);
  assertEquals(node.deadlinesMs.slice(0, 4), [MEMBER_MS, 0, MEMBER_MS, 0]);
});

Deno.test("a node pauses after no answer that names keys", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  let seq = 0;
  origin.replies.set("poll", () => {
    const keys = [`k${++seq}`];
    return seq > 3 ? null : blockReply(packDue({ seq, grantedMs: MEMBER_MS, keys, prefixes: [] }));
  });
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("poll", 4);
  assertEquals(node.pausesMs, []);
});

Deno.test("a node that ends while it joins tells nothing of it", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  origin.replies.set("join", () => null);
  mock.timers.enable({ apis: ["setTimeout"] });
  const node = new Node(origin, MEMBER_MS);
  node.start();
  await origin.asked("join");
  await node[Symbol.asyncDispose]();
  assertEquals([node.events, node.pausesMs], [[], []]);
});

Deno.test("a node that ends while it deletes its rows joins no origin any more", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  let joins = 0;
  const join = origin.replies.get("join")!;
  origin.replies.set("join", (request) => (joins++, join(request)));
  mock.timers.enable({ apis: ["setTimeout"] });
  const node = new Node(origin, MEMBER_MS);
  const deleted = Promise.withResolvers<void>();
  node.deleting = deleted.promise;
  node.start();
  const ended = node[Symbol.asyncDispose]();
  deleted.resolve();
  await ended;
  assertEquals([joins, node.events, node.membership.client], [0, [], null]);
});

Deno.test("an origin that refuses the node's password ends its start; another one is not asked", async () => {
  await using first = new ScriptedPeer((line) =>
    line.startsWith("u ") ? ["CLIENT_ERROR authentication failure\r\n"] : []
  );
  using second = new HostileOrigin({ memberMs: MEMBER_MS });
  mock.timers.enable({ apis: ["setTimeout"] });
  await using node = new Node([first, second], 60 * MEMBER_MS, { user: "u", password: "p" });
  await assertRejects(() => node.membership.begin(), Error, "the login of user u");
  assertEquals([node.membership.client, node.events], [null, ["left_origin"]]);
});
