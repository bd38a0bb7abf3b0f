import { assert, assertEquals } from "@std/assert";
import { NodeList, NODES_MAX } from "../../../../lib/rows/flows/node_list.ts";
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
    const deletion = this.#list.delete([KEY], this.nowMs);
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
  list.delete([KEY], 3 * MEMBER_MS);
  const after = join("after a write", 3 * MEMBER_MS)!;
  assert(list.isReadable(after));
  for (let index = 1; index < NODES_MAX; index++) join(`new${index}`, 3 * MEMBER_MS);
  assert(list.isReadable(after));
  assertEquals(join("late", 3 * MEMBER_MS), null);
  const silent = join("without a write", 6 * MEMBER_MS)!;
  assert(list.isReadable(silent));
  assert(!list.isReadable(after), "the first silent node has made room");
});

Deno.test("a node that asks and confirms nothing is no member after its time", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const session = list.join("one", "", 0)!;
  list.renew(session, Infinity, 0);
  const deletion = list.delete([KEY], 1);
  assertEquals(list.renew(session, Infinity, 1 + MEMBER_MS), MEMBER_MS);
  assertEquals(list.renew(session, Infinity, 2 + MEMBER_MS), null);
  assert(!list.isDone(deletion, 2 + MEMBER_MS), "it may serve until its time is over");
  assert(list.isDone(deletion, 3 * MEMBER_MS));
});

Deno.test("a node that joins again ends its session before; one that leaves ends its own", () => {
  const list = new NodeList(newSecret, MEMBER_MS, DRIFT_SHARE);
  const first = list.join("one", "", 0)!;
  list.renew(first, Infinity, 0);
  const deletion = list.delete([KEY], 1);
  const second = list.join("one", first, 1)!;
  assertEquals([list.isReadable(first), list.isReadable(second)], [false, true]);
  assert(list.isDone(deletion, 1), "it has no rows any more");
  list.renew(second, Infinity, 1);
  const later = list.delete([KEY], 2);
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
