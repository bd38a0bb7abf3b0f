import { assert, assertEquals, assertGreater, assertThrows } from "@std/assert";
import { JournalLoop, STOPPED } from "../../../lib/journal/journal_loop.ts";
import {
  JOURNAL_NAME,
  JournalError,
  readJournal,
  TokenJournal,
} from "../../../lib/journal/token_journal.ts";
import { encodeRecord } from "../../../lib/journal/token_records.ts";
import { TokenRecordType } from "../../../store/memory/token_record.ts";
import { WaiterState } from "../../../store/cache.ts";
import { MIB } from "../../../store/limits.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { STAT } from "../../../store/stats.ts";
import { CrashingFiles } from "../../support/crashing_files.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { TestStore } from "../../support/store.ts";

const NODE = "6d1c5b6e-2f5c-4c43-9c0e-1f3c8ad2b001";
const OWNER = 1;
const TRIES_MS = 200;
const { SET } = StoreMode;

/** The clients' knowledge: it outlives the process. */
class Clients {
  /** Keys of tokens that were promised and not released, by id. */
  readonly out = new Map<number, string>();
  readonly ids = new Set<number>();

  /** Notes an id that was handed out. It must be new. */
  gotId(id: number): void {
    assert(!this.ids.has(id), `id ${id} was handed out twice`);
    this.ids.add(id);
  }
}

/** A process: the store, and the journal of update tokens on a disk that can fail. */
class Node {
  readonly store: TestStore;
  readonly journal: TokenJournal;
  readonly loop: JournalLoop;
  readonly events: string[] = [];
  nowMs = 0;

  constructor(readonly files: CrashingFiles, readonly clients = new Clients(), firstId = 1000) {
    this.store = new TestStore({ tokenPersistence: "journal", firstId, memoryLimitBytes: 4 * MIB });
    this.journal = new TokenJournal(files, readJournal(files), NODE);
    this.loop = new JournalLoop(this.store.cache, this.journal, ({ event }) => {
      this.events.push(event);
    });
    this.loop.restore();
  }

  /** `token get`s that arrive together. @returns The ids of those that were promised. */
  get(...keys: string[]): number[] {
    const { waiters } = this.store.cache.tokens;
    const waiting = keys.map((key) => {
      assertEquals(this.store.token(key, "", { owner: OWNER, thread: 0 }), Outcome.WAITING);
      const id = this.store.changedId();
      this.clients.gotId(id);
      return { key, id, waiter: this.store.operation.waiter };
    });
    this.settle();
    const promised: number[] = [];
    for (const { key, id, waiter } of waiting) {
      const state = waiters.stateOf(waiter);
      waiters.remove(waiter);
      if (state === WaiterState.GRANTED) {
        promised.push(id);
        this.clients.out.set(id, key);
      } else assertEquals(state, WaiterState.NOT_FOUND, `${key} was answered`);
    }
    return promised;
  }

  release(id: number): void {
    const key = this.clients.out.get(id)!;
    this.clients.out.delete(id);
    assertEquals(this.store.releaseToken(key, id), Outcome.OK);
  }

  /** Lets the journal do what it would do now. */
  settle(): void {
    while (this.loop.step(this.nowMs) === 0);
  }

  /** Lets so much time pass that what is due by itself is done. */
  later(): void {
    for (let passed = 0; passed < 3; passed++) {
      this.nowMs += TRIES_MS;
      this.settle();
    }
  }

  /** Reads and stores go on. */
  serve(): void {
    assertEquals(this.store.store(SET, "other", "value"), Outcome.STORED);
    assertEquals(this.store.get("other"), "value");
    this.clients.gotId(this.store.id("other"));
  }

  /** The ids of the tokens in the table, in order. */
  listed(): number[] {
    const ids: number[] = [];
    const { inspector } = this.store.cache;
    inspector.visitTokens(0, inspector.tokenBucketCount, ({ id }) => ids.push(id));
    return ids.sort((a, b) => a - b);
  }

  stop(): void {
    this.store.cache.journal.queue.stop();
    while (this.loop.step(this.nowMs) !== STOPPED);
    this.loop.close();
  }
}

function tokensIn(files: CrashingFiles): number[] {
  return [...readJournal(files)!.tokens.ids].sort((a, b) => a - b);
}

/** Some gets and releases, alone and together. */
function script(node: Node): void {
  node.get("a", "b");
  node.serve();
  for (const id of [...node.clients.out.keys()].slice(0, 1)) node.release(id);
  node.get("c");
  for (const id of [...node.clients.out.keys()].slice(0, 1)) node.release(id);
  node.later();
  node.get("d");
  node.serve();
}

function checkAfterRestart(files: CrashingFiles, clients: Clients, context: string): void {
  files.failAfter(Infinity);
  const node = new Node(files, clients);
  const found = new Set(node.listed());
  for (const id of clients.out.keys()) assert(found.has(id), `${context}: token ${id} is missing`);
  node.get("new");
  node.serve();
  node.store.check();
}

/** Runs the script on a disk that fails, in every way a call can fail. @param failures Failing calls in a row. */
function failEverywhere(failures: number, isCrash: boolean): number {
  const whole = new CrashingFiles();
  script(new Node(whole));
  const longest = whole.length(JOURNAL_NAME);
  let runs = 0;
  for (let at = 0; at < whole.calls; at++) {
    for (let cut = 0; cut < longest; cut += failures === 1 ? 1 : 29) {
      let isCut = false;
      const files = new CrashingFiles();
      const below = (bound: number): number => {
        isCut ||= cut < bound;
        return Math.min(cut, bound - 1);
      };
      const clients = new Clients();
      let node: Node | null = null;
      files.failAfter(at, below, failures);
      const context = `call ${at}, cut at ${cut}, ${failures} failures, crash: ${isCrash}`;
      try {
        node = new Node(files, clients);
      } catch {
        // The server does not start.
      }
      if (node !== null) {
        script(node);
        node.store.check();
        if (!isCrash) {
          files.failAfter(Infinity);
          node.later();
          assertEquals(tokensIn(files), [...clients.out.keys()].sort((a, b) => a - b), context);
          assertEquals(node.listed(), tokensIn(files), context);
        }
      }
      if (isCrash) files.crash(below);
      if (node !== null) checkAfterRestart(files, clients, context);
      runs++;
      // The place of the failure matters to writes only.
      if (!isCut) break;
    }
  }
  return runs;
}

for (const isCrash of [false, true]) {
  const then = isCrash ? "the machine crashes at the end" : "the disk recovers";
  Deno.test(`every call to the disk fails, writes are cut at every byte: ${then}`, () => {
    let runs = 0;
    for (const failures of [1, 2, Infinity]) runs += failEverywhere(failures, isCrash);
    assertGreater(runs, 100);
  });
}

/** Random work on a disk that fails at random, with crashes and stops, under a wall clock that jumps. */
function torture(seed: number): { crashes: number; failures: number } {
  const random = randomFrom(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const files = new CrashingFiles();
  const clients = new Clients();
  let crashes = 0;
  let failures = 0;
  for (let process = 0; process < 12; process++) {
    files.failAfter(Infinity);
    // The clock that ids start with goes back and forth by as much as it likes.
    const node = new Node(files, clients, 1000 + below(2 ** 33));
    const found = new Set(node.listed());
    for (const id of clients.out.keys()) {
      assert(found.has(id), `seed ${seed}: token ${id} is missing`);
    }
    for (let step = below(30); step > 0; step--) {
      files.failAfter(below(3) === 0 ? below(4) : Infinity, below, 1 + below(3));
      switch (below(4)) {
        case 0:
          node.get(...Array.from({ length: 1 + below(5) }, () => `key${below(6)}`));
          break;
        case 1:
          for (const id of clients.out.keys()) {
            if (below(3) === 0) node.release(id);
          }
          node.settle();
          break;
        case 2:
          node.later();
          break;
        case 3:
          node.serve();
      }
    }
    failures += node.events.filter((event) => event === "journal_failed").length;
    node.store.check();
    if (below(3) === 0) {
      files.failAfter(Infinity);
      node.stop();
      // Tokens that were written and not promised may be there, but none that was released.
      assertEquals(tokensIn(files), node.listed());
    } else {
      crashes++;
    }
    files.crash(below);
  }
  return { crashes, failures };
}

Deno.test("no promise is broken and no id repeats, whatever the disk and the clock do", () => {
  return withSeed(drawSeed(), (seed) => {
    let crashes = 0;
    let failures = 0;
    for (let run = 0; run < 30; run++) {
      const seen = torture(seed + run);
      crashes += seen.crashes;
      failures += seen.failures;
    }
    assertGreater(crashes, 100);
    assertGreater(failures, 100);
  });
});

Deno.test("a get is synced alone, releases with the next get or a little later", () => {
  const node = new Node(new CrashingFiles());
  const { journal, loop } = node;
  const started = journal.syncs;
  const [a, b] = node.get("a", "b");
  assertEquals(journal.syncs, started + 1, "two gets, one sync");
  node.release(a!);
  assertEquals(loop.step(0), TRIES_MS, "nobody waits for a release");
  assertEquals(journal.syncs, started + 1);
  const [c] = node.get("c");
  assertEquals(journal.syncs, started + 2);
  assertEquals(tokensIn(node.files), [b, c]);
  node.release(b!);
  node.nowMs = 1000;
  assertEquals(loop.step(1000), TRIES_MS);
  assertEquals(loop.step(1150), 50, "no later, because it was looked at again");
  assertEquals(loop.step(1200), 0);
  assertEquals(tokensIn(node.files), [c]);
  assertEquals(journal.syncs, started + 3);
  assertGreater(loop.step(1201), TRIES_MS, "nothing to do");
});

Deno.test("a restart keeps which update token is the oldest", () => {
  const before = new Node(new CrashingFiles());
  before.get("old");
  before.store.clock(100_000);
  const [young] = before.get("young");
  const { files, clients } = before;
  const after = new Node(files, clients, young! + 1000);
  after.store.clock(300_000);
  assertEquals(after.store.cache.inspector.oldestTokenAgeSec, 300);
});

Deno.test("releases that never end are written all the same", () => {
  const node = new Node(new CrashingFiles());
  const ids = Array.from({ length: 20 }, (_, index) => node.get(`key${index}`)[0]!);
  for (const id of ids) {
    node.release(id);
    node.nowMs += TRIES_MS / 4;
    node.settle();
  }
  assertGreater(20 / 2, tokensIn(node.files).length);
});

Deno.test("a failing disk is reported once, and its recovery", () => {
  const node = new Node(new CrashingFiles());
  node.files.failAfter(0);
  for (let count = 0; count < 3; count++) assertEquals(node.get("k"), []);
  assertEquals(node.store.memory.stats[STAT.token_journal_errors], 3);
  node.later();
  assertEquals(node.events, ["journal_failed"]);
  node.files.failAfter(Infinity);
  node.later();
  assertEquals(node.events, ["journal_failed", "journal_recovered"]);
  assertEquals(node.get("k").length, 1);
  node.store.check();
});

Deno.test("a journal that was removed or replaced promises nothing until it is there again", () => {
  const node = new Node(new CrashingFiles());
  const [a] = node.get("a");
  node.files.put(JOURNAL_NAME, new Uint8Array());
  assertEquals(node.get("b"), [], "synced to a file without a name");
  assertEquals(node.get("c").length, 1);
  assertEquals(node.events, ["journal_failed", "journal_recovered"]);
  assert(tokensIn(node.files).includes(a!));
});

Deno.test("releases that found no room in the queue are written", () => {
  const node = new Node(new CrashingFiles());
  const [a, b, c] = node.get("a", "b", "c");
  const { queue } = node.store.cache.journal;
  const { put } = queue;
  queue.put = () => false;
  node.release(a!);
  node.release(c!);
  queue.put = put;
  node.settle();
  assertEquals(tokensIn(node.files), [b!]);
  assert(!readJournal(node.files)!.tokens.isQuarantined, "nobody has turned quarantine on");
  // Also when it is not known yet that the token is out, and while others ask.
  assertEquals(node.store.token("d", "", { owner: OWNER, thread: 0 }), Outcome.WAITING);
  node.store.cache.tokens.waiters.remove(node.store.operation.waiter);
  queue.put = () => false;
  assertEquals(node.store.dropTokens("d"), 1);
  node.store.cache.tokens.quarantine(true);
  queue.put = put;
  node.settle();
  assertEquals(tokensIn(node.files), [b!]);
  assert(readJournal(node.files)!.tokens.isQuarantined);
});

Deno.test("quarantine outlives a restart until it is turned off", () => {
  const files = new CrashingFiles();
  const node = new Node(files);
  node.store.cache.tokens.quarantine(true);
  node.later();
  const second = new Node(files);
  assertEquals(second.store.store(SET, "k", "x"), Outcome.NOT_STORED);
  second.store.check();
  second.store.cache.tokens.quarantine(false);
  second.stop();
  assertEquals(new Node(files).store.store(SET, "k", "x"), Outcome.STORED);
});

Deno.test("ids are reserved in time; without any left nothing is stored, and quarantine stays as it was", () => {
  const files = new CrashingFiles();
  const node = new Node(files);
  const { cache } = node.store;
  const { idLimit } = readJournal(files)!.tokens;
  node.serve();
  files.failAfter(0);
  cache.journal.raiseId(idLimit - 2 ** 25);
  node.later();
  assertEquals(node.store.get("other"), "value", "there are enough for a while");
  cache.journal.raiseId(idLimit - 2 ** 23);
  node.later();
  assertEquals(node.store.get("other"), undefined);
  assertEquals(node.store.store(SET, "k", "x"), Outcome.NOT_STORED);
  cache.tokens.quarantine(false);
  assertEquals(node.store.store(SET, "k", "x"), Outcome.NOT_STORED, "no operator knows better");
  cache.tokens.quarantine(true);
  files.failAfter(Infinity);
  node.later();
  assertGreater(readJournal(files)!.tokens.idLimit, idLimit);
  assertEquals(node.store.store(SET, "k", "x"), Outcome.NOT_STORED, "quarantine");
  cache.tokens.quarantine(false);
  assertEquals(node.store.store(SET, "k", "x"), Outcome.STORED);
  node.store.check();
});

Deno.test("a journal is rewritten while the server runs, when most of it is history", () => {
  const files = new CrashingFiles();
  const node = new Node(files);
  const keys = Array.from({ length: 10 }, (_, index) => `${index}`.padStart(250, "k"));
  let longest = 0;
  for (let round = 0; round < 250; round++) {
    for (const id of node.get(...keys)) node.release(id);
    node.later();
    longest = Math.max(longest, files.length(JOURNAL_NAME));
  }
  assert(longest < 2 ** 20 + 100_000, `${longest}`);
  assertGreater(files.created, 1);
});

Deno.test("a journal whose ids are used up ends the start", () => {
  const files = new CrashingFiles();
  new TokenJournal(files, null, NODE).append(
    encodeRecord(TokenRecordType.ID_LIMIT, { id: 2 ** 53 - 2 ** 32 }),
    true,
  );
  assertThrows(() => new Node(files), RangeError, "there are no more ids below 2^53");
});

Deno.test("an answered token is not lost without a word when its record changes", () => {
  const node = new Node(new CrashingFiles());
  node.get("a");
  const start = node.files.length(JOURNAL_NAME);
  node.get("b");
  const damaged = node.files.bytes(JOURNAL_NAME);
  damaged[start + 30]! ^= 1;
  node.files.put(JOURNAL_NAME, damaged);
  assertThrows(() => readJournal(node.files), JournalError, `is damaged at byte ${start}`);
});

Deno.test("a restart on a disk that refuses everything serves; tokens and stores wait for the disk", () => {
  const files = new CrashingFiles();
  const first = new Node(files);
  const [a] = first.get("a");
  first.stop();
  files.failAfter(0);
  const node = new Node(files, first.clients);
  assertEquals(node.listed(), [a!]);
  assertEquals(node.events, ["journal_failed", "journal_out_of_ids"]);
  assertEquals(node.store.store(SET, "other", "x"), Outcome.NOT_STORED);
  assertEquals(node.get("b"), []);
  files.failAfter(Infinity);
  node.later();
  assertEquals(node.events.slice(2), ["journal_recovered"]);
  node.serve();
  const [c] = node.get("c");
  assertEquals(tokensIn(files), [a!, c!]);
  node.store.check();
});

Deno.test("restore() refuses a journal with more tokens than the table has room for", () => {
  const files = new CrashingFiles();
  const node = new Node(files);
  node.get(...Array.from({ length: 40 }, (_, index) => `key${index}`));
  const small = new TestStore({ tokenPersistence: "journal", tokenEntries: 16 });
  const journal = new TokenJournal(files, readJournal(files), NODE);
  const loop = new JournalLoop(small.cache, journal, () => {});
  assertThrows(
    () => loop.restore(),
    RangeError,
    "the journal has 40 update tokens, more than fit into --token-entries 16",
  );
  assertEquals(tokensIn(files).length, 40, "nothing is lost by it");
});

Deno.test("100,000 tokens come back, with owner and peer, the oldest first", () => {
  const files = new CrashingFiles();
  const count = 100_000;
  const options = { tokenPersistence: "journal", tokenEntries: 4 * count } as const;
  const first = new TestStore({ ...options, connectionsMax: 64 });
  const journal = new TokenJournal(files, null, NODE);
  const loop = new JournalLoop(first.cache, journal, () => {});
  loop.restore();
  for (let number = 0; number < count; number++) {
    const key = `key${number}`;
    assertEquals(first.token(key, `o${number}`, { owner: OWNER, thread: 0 }), Outcome.WAITING);
    first.cache.tokens.waiters.remove(first.operation.waiter);
    if (number % 1000 === 999) loop.step(0);
  }
  using second = new TestStore(options);
  new JournalLoop(second.cache, new TokenJournal(files, readJournal(files), NODE), () => {})
    .restore();
  const { inspector } = second.cache;
  let seen = 0;
  inspector.visitTokens(0, inspector.tokenBucketCount, ({ key, owner, peer }) => {
    seen++;
    assertEquals([owner, peer], [`o${key.slice(3)}`, "peer"]);
  });
  assertEquals(seen, count);
});
