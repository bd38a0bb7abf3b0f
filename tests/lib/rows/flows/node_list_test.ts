import { keySet } from "../../../support/rows/key_sets.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { NodeList, NODES_MAX } from "../../../../lib/rows/flows/node_list.ts";
import { waitFor } from "../../../../lib/rows/flows/takeover.ts";
import { randomFrom } from "../../../support/random.ts";

// The real list of an origin, with one modelled node, whose messages take any time, whose clock may be slow, and whose
// process may be stopped. A read at the node never gives a value that is older than the last acknowledged write.

const MEMBER_MS = 100;
const DRIFT_SHARE = 0.1;
/** With the 20 ms that are always added, the origin counts exactly MEMBER_MS. */
const NO_MARGIN_SHARE = -0.2;
const KEY = "k";
const STEPS = 3000;
const SEEDS = 30;
const newSecret = (): string => "secret";

/** A rule that the node, or the origin, breaks. */
type Broken =
  | "nothing"
  | "the node counts from the answer"
  | "the origin has no margin"
  | "the node comes back with its rows"
  | "a write does not wait for the node"
  | "the node fills without its lease"
  | "the node confirms before it deletes";

interface Message {
  readonly atMs: number;
  readonly run: () => void;
}

class World {
  nowMs = 0;
  /** Versions that are committed, and acknowledged. */
  committed = 0;
  acknowledged = 0;
  stale = 0;
  hits = 0;
  writes = 0;
  readonly #broken: Broken;
  readonly #random: () => number;
  readonly #list: NodeList;
  readonly #messages: Message[] = [];
  /** How many of the origin's milliseconds the node counts as one. */
  readonly #slowness: number;
  /** The node: what it has, until when by its clock it may serve, its session, its lease, its stop. */
  #value: number | null = null;
  #untilMs = 0;
  #session = "";
  #confirmed = 0;
  #lease = 0;
  #leases = 0;
  #stoppedUntilMs = 0;
  #isAsking = false;
  /** The write in progress: whether its token is out. */
  #hasToken = false;

  constructor(broken: Broken, seed: number) {
    this.#broken = broken;
    this.#random = randomFrom(seed);
    this.#list = new NodeList(
      newSecret,
      MEMBER_MS,
      broken === "the origin has no margin" ? NO_MARGIN_SHARE : DRIFT_SHARE,
    );
    this.#slowness = 1 + DRIFT_SHARE * this.#random();
  }

  run(): void {
    for (let step = 0; step < STEPS; step++) {
      this.nowMs += this.#random() * 4;
      const due = this.#messages.filter(({ atMs }) => atMs <= this.nowMs);
      for (const message of due) {
        this.#messages.splice(this.#messages.indexOf(message), 1);
        message.run();
      }
      const chance = this.#random();
      if (chance < 0.02) this.#write();
      else if (chance < 0.025) this.#stoppedUntilMs = this.nowMs + this.#random() * 3 * MEMBER_MS;
      else if (chance < 0.6) this.#read();
      this.#ask();
    }
  }

  /** Sends a message, which takes any time, or is lost. A stopped node receives nothing before it goes on. */
  #send(run: () => void, toNode = false): void {
    if (this.#random() < 0.01) return;
    const delayMs = this.#random() < 0.05 ? this.#random() * 2 * MEMBER_MS : this.#random() * 5;
    const atMs = this.nowMs + delayMs;
    const receive = (): void => {
      if (!toNode || this.nowMs >= this.#stoppedUntilMs) return run();
      this.#messages.push({ atMs: this.#stoppedUntilMs, run: receive });
    };
    this.#messages.push({ atMs, run: receive });
  }

  get #nodeMs(): number {
    return this.nowMs / this.#slowness;
  }

  get #isStopped(): boolean {
    return this.nowMs < this.#stoppedUntilMs;
  }

  /** The origin's write: token, deletion, commit, acknowledgement. */
  #write(): void {
    if (this.#hasToken) return;
    this.#hasToken = true;
    const deletion = this.#list.delete(keySet(KEY), this.nowMs);
    const proceed = (): void => {
      if (
        this.#broken !== "a write does not wait for the node" &&
        !this.#list.isDone(deletion, this.nowMs)
      ) {
        this.#messages.push({ atMs: this.nowMs + 1, run: proceed });
        return;
      }
      this.committed++;
      this.acknowledged = this.committed;
      this.#hasToken = false;
      this.writes++;
    };
    proceed();
  }

  /** A client's read at the node. */
  #read(): void {
    if (this.#isStopped || this.#nodeMs >= this.#untilMs) return;
    if (this.#value !== null) {
      this.hits++;
      if (this.#value < this.acknowledged) this.stale++;
      return;
    }
    if (this.#lease !== 0) return;
    const lease = this.#lease = ++this.#leases;
    const session = this.#session;
    this.#send(() => {
      const version = this.committed;
      const isCacheable = !this.#hasToken && this.#list.isReadable(session);
      this.#send(() => {
        const isHeld = this.#lease === lease && session === this.#session;
        if (isCacheable && (isHeld || this.#broken === "the node fills without its lease")) {
          this.#value = version;
        }
        if (this.#lease === lease) this.#lease = 0;
      }, true);
    });
  }

  #drop(): void {
    this.#value = null;
    this.#lease = 0;
  }

  /** The node joins, or asks what to delete: one question at a time. A lost answer is not waited for. */
  #ask(): void {
    if (this.#isAsking || this.#isStopped) return;
    this.#isAsking = true;
    const sentMs = this.#nodeMs;
    const session = this.#session;
    const confirmed = this.#confirmed;
    let isAnswered = false;
    this.#messages.push({
      atMs: this.nowMs + 2.5 * MEMBER_MS,
      run: () => {
        if (!isAnswered) this.#leave();
        isAnswered = true;
      },
    });
    const answer = (run: () => void): void =>
      this.#send(() => {
        if (isAnswered) return;
        isAnswered = true;
        this.#isAsking = false;
        run();
      }, true);
    if (session === "") {
      if (this.#broken !== "the node comes back with its rows") this.#drop();
      this.#send(() => {
        const joined = this.#list.join("node", "", this.nowMs)!;
        const grantedMs = this.#list.renew(joined, Infinity, this.nowMs)!;
        answer(() => {
          this.#session = joined;
          this.#confirmed = 0;
          this.#renew(sentMs, grantedMs);
        });
      });
      return;
    }
    this.#send(() => {
      this.#list.confirm(session, confirmed);
      const grantedMs = this.#list.renew(session, Infinity, this.nowMs);
      if (grantedMs === null) return answer(() => this.#leave());
      const { seq, keys } = this.#list.send(session, 10);
      answer(() => {
        if (this.#broken === "the node confirms before it deletes" && keys.length > 0) {
          this.#renew(sentMs, grantedMs);
          this.#confirmed = Math.max(this.#confirmed, seq);
          this.#send(() => this.#drop(), true);
          return;
        }
        if (keys.length > 0) this.#drop();
        this.#confirmed = Math.max(this.#confirmed, seq);
        this.#renew(sentMs, grantedMs);
      });
    });
  }

  #renew(sentMs: number, grantedMs: number): void {
    const from = this.#broken === "the node counts from the answer" ? this.#nodeMs : sentMs;
    this.#untilMs = Math.max(this.#untilMs, from + grantedMs);
  }

  #leave(): void {
    this.#isAsking = false;
    this.#session = "";
    this.#untilMs = 0;
  }
}

function runAll(broken: Broken): { stale: number; hits: number; writes: number } {
  const sum = { stale: 0, hits: 0, writes: 0 };
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = new World(broken, seed);
    world.run();
    sum.stale += world.stale;
    sum.hits += world.hits;
    sum.writes += world.writes;
  }
  return sum;
}

Deno.test("a node that is slow, stopped or cut off never serves an old value, and delays writes only", () => {
  const { stale, hits, writes } = runAll("nothing");
  assertEquals(stale, 0);
  assert(hits > 1000 && writes > 100, `${hits} hits, ${writes} writes`);
});

const RULES: readonly Broken[] = [
  "the node counts from the answer",
  "the origin has no margin",
  "the node comes back with its rows",
  "a write does not wait for the node",
  "the node fills without its lease",
  "the node confirms before it deletes",
];

for (const broken of RULES) {
  Deno.test(`a broken rule is found: ${broken}`, () => {
    assert(runAll(broken).stale > 0);
  });
}

Deno.test("nodes whose time is over keep no room from others; members do", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const join = (name: string, nowMs: number): string | null => {
    const session = list.join(name, "", nowMs);
    if (session !== null) list.renew(session, Infinity, nowMs);
    return session;
  };
  for (let index = 0; index < NODES_MAX; index++) join(`member${index}`, 0);
  assertEquals(join("late", 1), null);
  list.delete(keySet(KEY), 3 * MEMBER_MS);
  const after = join("after a write", 3 * MEMBER_MS)!;
  assert(list.isReadable(after));
  for (let index = 1; index < NODES_MAX; index++) join(`new${index}`, 3 * MEMBER_MS);
  assert(list.isReadable(after));
  assertEquals(join("late", 3 * MEMBER_MS), null);
  const silent = join("without a write", 6 * MEMBER_MS)!;
  assert(list.isReadable(silent));
  assert(!list.isReadable(after), "the first silent node has made room");
});

Deno.test("a node that asks and confirms nothing keeps a write waiting for one time and the margin", () => {
  // The write begins right after a renewal; the node asks all the time, or last when its time is nearly over.
  for (const pauseMs of [1, 10, MEMBER_MS - 1, 1.2 * MEMBER_MS]) {
    const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
    const session = list.join("one", "", 0)!;
    list.renew(session, Infinity, 0);
    const deletion = list.delete(keySet(KEY), 0);
    const endMs = waitFor(MEMBER_MS, DRIFT_SHARE);
    for (let nowMs = pauseMs; nowMs < endMs; nowMs += pauseMs) {
      const grantedMs = list.renew(session, Infinity, nowMs);
      list.send(session, 10);
      assert(grantedMs === null || nowMs + grantedMs <= MEMBER_MS, `${grantedMs} at ${nowMs}`);
      assert(!list.isDone(deletion, nowMs), "it may serve until its time is over");
    }
    assert(list.isDone(deletion, endMs), `asks every ${pauseMs} ms`);
    assert(!list.isReadable(session));
  }
});

Deno.test("a node that confirms is granted its whole time again", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 0);
  list.delete(keySet(KEY), 0);
  assertEquals(list.renew(session, Infinity, 60), MEMBER_MS - 60);
  list.confirm(session, list.send(session, 10).seq);
  assertEquals(list.renew(session, Infinity, 61), MEMBER_MS);
});

Deno.test("a session is its node's only: no other text ends, renews, reads or confirms anything", () => {
  let secrets = 0;
  const list = new NodeList(() => `secret${++secrets}`, MEMBER_MS, DRIFT_SHARE);
  const one = list.join("one", "", 0)!;
  const other = list.join("other", "", 0)!;
  assertEquals([one, other], ["1-secret1", "2-secret2"]);
  for (const session of [one, other]) list.renew(session, Infinity, 0);
  const deletion = list.delete(keySet(KEY), 0);
  list.send(one, 10);
  const guesses = [
    "",
    "1",
    "1-",
    "1-1",
    "1-secret2",
    "2-secret1",
    "1-secret",
    "1-secret11",
    "-secret1",
  ];
  guesses.push(
    "01-secret1",
    "+1-secret1",
    " 1-secret1",
    "1.0-secret1",
    "1-secret1 ",
    "3-secret1",
    "1-SECRET1",
  );
  for (const guess of guesses) {
    list.confirm(guess, 1);
    list.leave(guess, 1);
    assertEquals(list.renew(guess, Infinity, 1), null, guess);
    assertEquals(list.isReadable(guess), false, guess);
    assertEquals(list.isPrompt(guess, 1), false, guess);
    assertEquals(list.due(guess, 10), { seq: 0, keys: [], prefixes: [] }, guess);
    // It may have the name of another one.
    list.leave(list.join("one", guess, 1)!, 1);
    assert(list.isReadable(one) && list.isReadable(other) && !list.isDone(deletion, 1), guess);
  }
  // Each may confirm for itself only.
  list.confirm(one, 1);
  assert(!list.isDone(deletion, 1));
  list.confirm(other, list.send(other, 10).seq);
  assert(list.isDone(deletion, 1));
});

Deno.test("a node confirms what was sent to it only, and no deletion that begins later", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 0);
  const first = list.delete(keySet("a", "b"), 0);
  const refuse = (seq: number): void => {
    assertThrows(() => list.confirm(session, seq), RangeError, `confirms deletion ${seq}`);
  };
  refuse(1);
  assertEquals(list.send(session, 1).seq, 1);
  for (const seq of [2, 3, -1, NaN, Infinity, -Infinity, 2 ** 53, 1e300]) refuse(seq);
  assertEquals(list.due(session, 10).keys, ["a", "b"]);
  list.confirm(session, 1);
  assertEquals([list.due(session, 10).keys, list.isDone(first, 0)], [["b"], false]);
  list.confirm(session, list.send(session, 10).seq);
  assert(list.isDone(first, 0));
  // A number that was right before confirms nothing of a later write.
  const later = list.delete(keySet("a"), 0);
  list.confirm(session, 2);
  refuse(3);
  assert(!list.isDone(later, 0));
});

Deno.test("a session that ends while a deletion has waited for it is told of, however it ends", () => {
  const ends: Record<string, (list: NodeList, session: string, nowMs: number) => void> = {
    "it leaves": (list, session, nowMs) => list.leave(session, nowMs),
    "it joins again": (list, session, nowMs) => void list.join("one", session, nowMs),
    "it joins by another name": (list, session, nowMs) => void list.join("two", session, nowMs),
    "a write goes on": (list, _, nowMs) => void list.delete(keySet(KEY), nowMs + 10 * MEMBER_MS),
    "it is forgotten": (list, _, nowMs) => void list.forget("one", nowMs + 10 * MEMBER_MS),
  };
  for (const [name, end] of Object.entries(ends)) {
    for (const [waitedMs, isTold] of [[null, false], [0, false], [MEMBER_MS / 2, true]] as const) {
      // A write that ends the session itself has waited for as long.
      if (waitedMs === 0 && /write|forgotten/.test(name)) continue;
      const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
      const told: string[] = [];
      list.delayed = (late) => told.push(late);
      const session = list.join("one", "", 0)!;
      list.renew(session, Infinity, 0);
      if (waitedMs !== null) list.delete(keySet(KEY), 0);
      assert(list.isPrompt(session, 0));
      assertEquals(list.isPrompt(session, waitedMs ?? 0), !isTold, name);
      end(list, session, waitedMs ?? 0);
      assertEquals(told, isTold ? ["one"] : [], `${name}, ${waitedMs}`);
      assertEquals(list.isPrompt(session, 0) && isTold, false, name);
    }
  }
});

Deno.test("a node that joins again ends its session before; one that leaves ends its own", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const first = list.join("one", "", 0)!;
  list.renew(first, Infinity, 0);
  const deletion = list.delete(keySet(KEY), 1);
  const second = list.join("one", first, 1)!;
  assertEquals([list.isReadable(first), list.isReadable(second)], [false, true]);
  assert(list.isDone(deletion, 1), "it has no rows any more");
  list.renew(second, Infinity, 1);
  const later = list.delete(keySet(KEY), 2);
  list.leave(second, 2);
  assertEquals([list.isReadable(second), list.mayServe(2), list.size], [false, false, 0]);
  assert(list.isDone(later, 2));
});

Deno.test("the events of a node: joined, silent after its time, returned, left", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const told: string[] = [];
  list.tell = ({ name, kind, ageMs }) => told.push(`${name} ${kind} ${ageMs}`);
  const session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 1);
  list.watch(MEMBER_MS);
  list.watch(3 * MEMBER_MS);
  list.watch(4 * MEMBER_MS);
  list.renew(session, Infinity, 5 * MEMBER_MS);
  list.leave(session, 5 * MEMBER_MS + 1);
  assertEquals(told, ["one joined 0", "one silent 299", "one returned 499", "one left 1"]);
});

Deno.test("a node that asks is not silent, though its origin has no time to grant", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const told: string[] = [];
  const session = list.join("one", "", 0)!;
  list.tell = ({ kind }) => told.push(kind);
  assertEquals(list.renew(session, -1, 1), 0);
  list.watch(MEMBER_MS);
  assertEquals(list.renew(session, -1, MEMBER_MS), 0);
  list.watch(2 * MEMBER_MS - 1);
  assertEquals([told, list.mayServe(2 * MEMBER_MS - 1)], [[], false]);
  list.watch(2 * MEMBER_MS);
  assertEquals(told, ["silent"]);
});

Deno.test("no renewal is longer than the member time, at whatever moment it is asked for", () => {
  for (const memberMs of [MEMBER_MS, 2000, 600_000]) {
    const list = new NodeList(newSecret, memberMs, DRIFT_SHARE);
    for (let asked = 0; asked < 1000; asked++) {
      // Sums with such numbers are rounded.
      const nowMs = 10 * Math.sqrt(asked + 2);
      const session = list.join(`node ${asked}`, "", nowMs)!;
      for (const atMs of [nowMs, nowMs + memberMs / 3]) {
        const grantedMs = list.renew(session, Infinity, atMs);
        assert(grantedMs !== null && grantedMs >= 0 && grantedMs <= memberMs, `${grantedMs} ms`);
        list.delete(keySet(KEY), nowMs);
      }
      list.leave(session, nowMs);
    }
  }
});

Deno.test("a node that was lost long ago is forgotten at the next join; until then it is shown", () => {
  const shownMs = 600_000;
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const names = (nowMs: number): string[] =>
    [...list.states(nowMs)].map(({ name, state }) => `${name} ${state}`);
  list.renew(list.join("lost", "", 0)!, Infinity, 0);
  list.delete(keySet(KEY), 3 * MEMBER_MS);
  list.join("one", "", shownMs - 1);
  assertEquals(names(shownMs - 1), ["lost lost", "one silent"]);
  list.join("two", "", shownMs);
  assertEquals(names(shownMs), ["one silent", "two silent"]);
});

Deno.test("a node returns after its last renewal, whichever of its sessions had it", () => {
  for (const ended of [[3, 7], [7, 3]]) {
    const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
    for (const renewedMs of ended) {
      list.renew(list.join("one", "", 0)!, Infinity, renewedMs);
    }
    list.delete(keySet(KEY), 10 * MEMBER_MS);
    const told: string[] = [];
    list.tell = ({ kind, ageMs }) => told.push(`${kind} ${ageMs}`);
    list.join("one", "", 10 * MEMBER_MS);
    assertEquals(told, [`returned ${10 * MEMBER_MS - 7}`]);
    assertEquals([...list.states(10 * MEMBER_MS)].length, 1, "its sessions before are forgotten");
  }
});

Deno.test("a node that a write went on without makes room before one that is only silent", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const silent = list.join("silent", "", 0)!;
  const lost = list.join("lost", "", 0)!;
  list.renew(silent, Infinity, MEMBER_MS);
  list.renew(lost, Infinity, 0);
  const atMs = 1.5 * MEMBER_MS;
  for (let index = 2; index < NODES_MAX; index++) {
    list.renew(list.join(`member${index}`, "", atMs)!, Infinity, atMs);
  }
  list.delete(keySet(KEY), atMs);
  list.confirm(silent, list.send(silent, 10).seq);
  // The time of the first one is over, but no write has gone on without it.
  const lateMs = MEMBER_MS + waitFor(MEMBER_MS, DRIFT_SHARE);
  assert(list.join("late", "", lateMs) !== null);
  assertEquals(list.renew(silent, Infinity, lateMs), MEMBER_MS);
});

Deno.test("a node that returns is silent again when its time is over once more, and not when it is lost", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const session = list.join("one", "", 0)!;
  const told: string[] = [];
  list.tell = ({ kind }) => told.push(kind);
  for (const nowMs of [0, 10 * MEMBER_MS]) {
    list.renew(session, Infinity, nowMs);
    list.renew(session, Infinity, nowMs + 1);
    list.watch(nowMs + 5 * MEMBER_MS);
  }
  assertEquals(told.splice(0), ["silent", "returned", "silent"]);
  list.renew(session, Infinity, 20 * MEMBER_MS);
  list.delete(keySet(KEY), 30 * MEMBER_MS);
  list.watch(31 * MEMBER_MS);
  assertEquals(told, ["returned", "lost"]);
});

Deno.test("a node that asks while its origin has no time is lost without a word, and returns so", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const told: string[] = [];
  list.tell = ({ kind }) => told.push(kind);
  let session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 0);
  for (const nowMs of [3 * MEMBER_MS, 4 * MEMBER_MS, 5 * MEMBER_MS]) {
    list.renew(session, 0, nowMs);
    const deletion = list.delete(keySet(KEY), nowMs + 1);
    assert(list.isDone(deletion, nowMs + 1), "no write waits");
    assertEquals(list.renew(session, 0, nowMs + 2), null, "its session is over");
    session = list.join("one", session, nowMs + 3)!;
  }
  assertEquals(told, ["joined"]);
  list.renew(session, Infinity, 6 * MEMBER_MS);
  list.delete(keySet(KEY), 9 * MEMBER_MS);
  list.join("one", "", 9 * MEMBER_MS);
  assertEquals(told, ["joined", "lost", "returned"]);
});

Deno.test("the loss of a node that asks and confirms nothing is told", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const told: string[] = [];
  const session = list.join("one", "", 0)!;
  list.tell = ({ kind }) => told.push(kind);
  list.renew(session, Infinity, 0);
  const deletion = list.delete(keySet(KEY), 1);
  list.renew(session, Infinity, MEMBER_MS);
  assert(list.isDone(deletion, 2 * MEMBER_MS - 1));
  assertEquals(told, ["lost"]);
});

Deno.test("a node that asks exactly when its confirmation is due gets no time, and its session goes on", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 0);
  list.delete(keySet(KEY), 0);
  assertEquals(list.renew(session, Infinity, MEMBER_MS), 0);
  assertEquals(list.renew(session, Infinity, MEMBER_MS + 1), null);
  list.confirm(session, list.send(session, 10).seq);
  assertEquals(list.renew(session, Infinity, MEMBER_MS + 1), MEMBER_MS);
});
