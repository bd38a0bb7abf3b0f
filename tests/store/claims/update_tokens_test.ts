import { assert, assertEquals, assertGreater } from "@std/assert";
import { WaiterState } from "../../../store/cache.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { TOKEN_QUEUE } from "../../../store/memory/token_layout.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../../../store/memory/token_record.ts";
import { STAT } from "../../../store/stats.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { held, TestStore } from "../../support/store.ts";
import { queuedRecords } from "../../support/queued_records.ts";

const A = 1;
const B = 2;
const { SET } = StoreMode;
const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

function stat(store: TestStore, name: keyof typeof STAT): number {
  return store.memory.stats[STAT[name]]!;
}

function idOf(token: number | Outcome): number {
  assertGreater(token, 100, "an id, not an outcome");
  return token;
}

// transcripts/tokens*.txt have what each command does under an update token.

Deno.test("nothing but release and drop ends a token", () => {
  const store = new TestStore();
  const id = idOf(store.token("k", "me"));
  store.cache.flushAll(0);
  store.cache.releaseOwner(A);
  store.clock(10_000_000_000 % 2 ** 31);
  for (let slice = 0; slice < 100; slice++) store.cache.maintain();
  assertEquals(store.token("k", "me"), id);
  assertEquals(store.store(SET, "k", "x"), Outcome.NOT_STORED);
  assertEquals(store.dropTokens("k", id + 1), 0);
  assertEquals(store.dropTokens("other"), 0);
  assertEquals(store.dropTokens("k", id), 1);
  assertEquals(store.store(SET, "k", "x"), Outcome.STORED);
  assertEquals(store.releaseToken("k", id), Outcome.NOT_FOUND, "its owner learns of the drop");
  assertEquals(store.get("k"), undefined);
});

Deno.test("the table of update tokens has a limit, and a refused token changes nothing", () => {
  using store = new TestStore({ tokenEntries: 16 });
  const ids = Array.from({ length: 16 }, (_, index) => idOf(store.token(`key ${index}`)));
  store.store(SET, "one more", "value");
  assertEquals(store.token("one more"), Outcome.TOO_MANY_TOKENS);
  assertEquals(store.get("one more"), "value");
  store.releaseToken("key 3", ids[3]!);
  idOf(store.token("one more"));
  assertEquals(store.cache.tokens.dropNewest(5), 5);
  assertEquals(store.dropTokens("key 15"), 0, "the newest went first");
  assertEquals(store.cache.tokens.dropNewest(5, ids[1]), 2, "up to an id");
  assertEquals(store.dropTokens("key 2"), 1);
});

Deno.test("a quarantine with an end is over by itself", () => {
  const store = new TestStore();
  store.cache.tokens.quarantineFor(60);
  store.clock(59_000);
  store.cache.maintain();
  assertEquals(store.store(SET, "k", "x"), Outcome.NOT_STORED);
  store.clock(61_000);
  store.cache.maintain();
  assertEquals(store.store(SET, "k", "x"), Outcome.STORED);
});

Deno.test("an operator's quarantine replaces one with an end", () => {
  const store = new TestStore();
  const { tokens } = store.cache;
  tokens.quarantineFor(60);
  tokens.quarantine(true);
  store.clock(61_000);
  store.cache.maintain();
  assertEquals(store.store(SET, "k", "x"), Outcome.NOT_STORED);
  tokens.quarantine(false);
  assertEquals(store.store(SET, "k", "x"), Outcome.STORED);
});

/** The records that the journal would be given, and what it says of them. */
function settle(store: TestStore, isWritten: boolean): void {
  const { journal } = store.cache;
  const records = queuedRecords(journal.queue);
  const { length } = records.bytes;
  store.cache.enter();
  for (let at = 0; at < length;) at = journal.settle(records, at, length, 2, isWritten);
  journal.settleWaiters(journal.queue.take(length));
  store.cache.leave();
}

Deno.test("the journal's thread is woken for a record, and for nothing else", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  const { queue } = store.cache.journal;
  store.store(SET, "k", "x");
  assertEquals(queue.bell, 0);
  held(store.cache, () => store.token("k", "me", { owner: A, thread: 0 }));
  assertEquals(queue.bell, 1);
  store.cache.tokens.waiters.remove(store.operation.waiter);
  settle(store, true);
});

Deno.test("with a journal, a token is promised when its record is on the disk", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  const woken: number[] = [];
  store.cache.onReady = (thread) => woken.push(thread);
  const { waiters } = store.cache.tokens;
  assertEquals(store.token("k", "me", { owner: A, thread: 0 }), Outcome.WAITING);
  const first = store.operation.waiter;
  assertEquals(store.token("k", "me", { owner: B, thread: 0 }), Outcome.WAITING);
  const second = store.operation.waiter;
  assertEquals(store.store(SET, "k", "x"), Outcome.NOT_STORED, "the key is uncacheable already");
  assertEquals(waiters.stateOf(first), WaiterState.WAITING);
  settle(store, true);
  assertEquals(waiters.stateOf(first), WaiterState.GRANTED);
  assertEquals(waiters.stateOf(second), WaiterState.GRANTED);
  assertEquals(waiters.idLow(first), waiters.idLow(second));
  assertEquals(woken, [0]);
  assertEquals([waiters.takeReady(0), waiters.takeReady(0), waiters.takeReady(0)], [A, B, 0]);
  waiters.remove(first);
  waiters.remove(second);
});

Deno.test("a token that could not be written is none, and its key is cacheable again", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  const { waiters } = store.cache.tokens;
  assertEquals(store.token("k", "", { owner: A, thread: 0 }), Outcome.WAITING);
  const { waiter } = store.operation;
  settle(store, false);
  assertEquals(waiters.stateOf(waiter), WaiterState.NOT_FOUND);
  waiters.remove(waiter);
  assertEquals(store.store(SET, "k", "x"), Outcome.STORED);
  assertEquals(stat(store, "token_journal_errors"), 1);
});

Deno.test("a full queue of the journal refuses tokens, but no release", () => {
  using store = new TestStore({ tokenPersistence: "journal", tokenEntries: 160_000 });
  const fill = (name: string): Map<string, number> => {
    const ids = new Map<string, number>();
    for (let count = 0;; count++) {
      const key = `${name}${count}`.padEnd(200, "x");
      const outcome = store.token(key, "", { owner: A, thread: 0 });
      if (outcome !== Outcome.WAITING) {
        assertEquals(outcome, Outcome.NOT_PERSISTED);
        assertEquals(store.store(SET, key, "x"), Outcome.STORED);
        return ids;
      }
      ids.set(key, store.changedId());
      store.cache.tokens.waiters.remove(store.operation.waiter);
    }
  };
  const ids = fill("first ");
  assertGreater(ids.size, 1000);
  settle(store, true);
  fill("second ");
  const { queue } = store.cache.journal;
  assertEquals(queue.takeRecordsLost(), false);
  for (const [key, id] of ids) assertEquals(store.releaseToken(key, id), Outcome.OK);
  assertEquals(queue.takeRecordsLost(), true);
});

Deno.test("the journal brings back tokens and raises ids", () => {
  const store = new TestStore({ tokenPersistence: "journal", tokenEntries: 16 });
  const { journal } = store.cache;
  const id = 2 ** 52;
  const { startedUnixSec } = store.memory.options;
  assert(journal.restore(encode("k"), encode("me"), encode("peer"), startedUnixSec - 100, id));
  journal.raiseId(id + 5);
  assertEquals(journal.lastId, id + 5);
  journal.raiseId(7);
  assertEquals(journal.lastId, id + 5);
  assertEquals(store.token("k", "me"), id);
  const seen: unknown[] = [];
  const { inspector } = store.cache;
  inspector.visitTokens(0, inspector.tokenBucketCount, (view) => seen.push(view));
  assertEquals(seen.length, 1);
  assertEquals(seen, [{ key: "k", owner: "me", peer: "peer", id, ageSec: 100 }]);
  assertEquals(inspector.oldestTokenAgeSec, 100);
  store.clock(7000);
  assert(journal.restore(encode("younger"), encode(""), encode(""), startedUnixSec, id + 1));
  assertEquals(inspector.oldestTokenAgeSec, 107, "of the first, by the clock");
  assertEquals(store.releaseToken("k", id), Outcome.OK);
  assertEquals(inspector.oldestTokenAgeSec, 7);
  // The clock was set back while the server was down.
  assertEquals(store.releaseToken("younger", id + 1), Outcome.OK);
  assert(journal.restore(encode("k"), encode(""), encode(""), startedUnixSec + 1000, id));
  assertEquals(inspector.oldestTokenAgeSec, 0);
  store.check();
  for (let count = 0; count < 15; count++) {
    journal.restore(encode(`key ${count}`), encode(""), encode(""), 1_700_000_000, 100 + count);
  }
  assertEquals(journal.restore(encode("one more"), encode(""), encode(""), 0, 50), false);
});

Deno.test("a token of the journal ends what a snapshot has stored under its key", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  for (const key of ["k", "other"]) store.store(SET, key, "of a snapshot");
  store.cache.journal.restore(encode("k"), encode(""), encode(""), 1_700_000_000, 50);
  assertEquals([store.get("k"), store.get("other")], [undefined, "of a snapshot"]);
});

Deno.test("a quarantine that a journal brings back, or that a lost one makes, ends all values", () => {
  for (const begin of ["restoreQuarantine", "close"] as const) {
    using store = new TestStore({ tokenPersistence: "journal" });
    const { journal, tokens } = store.cache;
    store.store(SET, "k", "x");
    const lease = store.getss("absent", 100);
    assert(typeof lease === "object");
    journal[begin](true);
    assertEquals(store.get("k"), undefined);
    assertEquals(store.store(SET, "k", "x"), Outcome.NOT_STORED);
    assertEquals(journal.isQuarantined, begin === "restoreQuarantine");
    // An operator ends a quarantine, not the lack of a journal.
    tokens.quarantine(false);
    const ended = begin === "restoreQuarantine" ? Outcome.STORED : Outcome.NOT_STORED;
    assertEquals(store.store(SET, "k", "x"), ended);
    journal.close(false);
    assertEquals(store.store(SET, "k", "x"), Outcome.STORED);
    const again = store.getss("absent", 100);
    assert(typeof again === "object" && again.remain === 0, "the lease is gone, too");
  }
});

Deno.test("waits for the disk end when the positions of records wrap", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  const { journal, tokens: { waiters } } = store.cache;
  const words = new Int32Array(store.memory.shared.tokenQueue, 0, TOKEN_QUEUE.WORDS);
  words[TOKEN_QUEUE.HEAD] = words[TOKEN_QUEUE.TAIL] = 2 ** 31 - 20;
  assertEquals(store.token("k", "", { owner: A, thread: 0 }), Outcome.WAITING);
  const { waiter } = store.operation;
  journal.settleWaiters(2 ** 31 - 1);
  assertEquals(waiters.stateOf(waiter), WaiterState.WAITING);
  settle(store, true);
  assertEquals(waiters.stateOf(waiter), WaiterState.GRANTED);
  waiters.remove(waiter);
});

Deno.test("syncs are counted as the journal counts them", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  for (const syncs of [1, 1, 5, 7]) {
    store.cache.journal.noteSyncs(syncs);
    assertEquals(stat(store, "token_journal_syncs"), syncs);
  }
});

Deno.test("the release of a token that is not on the disk yet leaves it, and ends what is cached", () => {
  using store = new TestStore({ tokenPersistence: "journal" });
  const { inspector, tokens } = store.cache;
  assertEquals(store.token("k", "me", { owner: A, thread: 0 }), Outcome.WAITING);
  const { waiter } = store.operation;
  const id = store.changedId();
  const listed = (): number => {
    let count = 0;
    inspector.visitTokens(0, inspector.tokenBucketCount, () => count++);
    inspector.visitTokensAfter(0, 10, () => count++);
    return count;
  };
  assertEquals(store.releaseToken("k", id), Outcome.NOT_FOUND);
  assertEquals([stat(store, "token_release"), stat(store, "token_release_unknown")], [0, 1]);
  assertEquals([inspector.tokenCount, listed()], [1, 0]);
  settle(store, true);
  assertEquals(listed(), 2);
  assertEquals(store.releaseToken("k", id), Outcome.OK);
  tokens.waiters.remove(waiter);
  store.store(SET, "k", "x");
  assertEquals(store.releaseToken("k", id), Outcome.NOT_FOUND);
  assertEquals(store.get("k"), undefined);
});

Deno.test("tokens are listed behind an id, so many at a time", () => {
  const store = new TestStore();
  const ids = ["a", "b", "c", "d"].map((key) => idOf(store.token(key)));
  const { inspector } = store.cache;
  const page = (afterId: number, most: number): [keys: string, passed: number] => {
    let keys = "";
    const passed = inspector.visitTokensAfter(afterId, most, ({ key }) => keys += key);
    return [keys, passed];
  };
  assertEquals(page(0, 9), ["abcd", 0]);
  assertEquals(page(0, 3), ["abc", 0]);
  assertEquals(page(ids[0]!, 2), ["bc", 1]);
  assertEquals(page(ids[2]!, 2), ["d", 3]);
  assertEquals(page(ids[3]!, 2), ["", 4]);
});

Deno.test("quarantine removes locked values slice by slice, up to the last", () => {
  const LOCKS = 600;
  using store = new TestStore();
  for (let key = 0; key < LOCKS; key++) {
    store.store(SET, `k${key}`, "x");
    assertEquals(store.lock(`k${key}`, A), Outcome.OK);
  }
  const { locks, tokens } = store.cache;
  tokens.quarantine(true);
  const left: number[] = [];
  for (let from = 1; from !== 0;) {
    from = tokens.removeLocked(from);
    left.push(locks.count);
  }
  assertEquals(left, [LOCKS - 256, LOCKS - 512, 0]);
  tokens.quarantine(false);
  assertEquals(store.get("k0"), undefined);
});

Deno.test("quarantine is told to the journal, and its loss in a full queue, too", () => {
  using store = new TestStore({ tokenPersistence: "journal", tokenEntries: 100_000 });
  const { journal, tokens } = store.cache;
  const types = (): number[] => {
    const { bytes } = queuedRecords(journal.queue);
    journal.queue.take(bytes.length);
    const found: number[] = [];
    for (let at = 0; at < bytes.length; at += RECORD.DATA) found.push(bytes[at]!);
    return found;
  };
  store.token("key", "owner", { owner: A, thread: 0 });
  tokens.waiters.remove(store.operation.waiter);
  settle(store, true);
  tokens.quarantine(true);
  tokens.quarantine(false);
  assertEquals(types(), [TokenRecordType.QUARANTINE_ON, TokenRecordType.QUARANTINE_OFF]);
  assertEquals(journal.queue.takeRecordsLost(), false);
  while (journal.queue.put(TokenRecordType.RELEASE, 0, 0, 0));
  tokens.quarantine(true);
  assertEquals(journal.queue.takeRecordsLost(), true);
});

/** Random operations on few keys, compared with a map of who has which tokens. */
function compareWithModel(seed: number): void {
  const random = randomFrom(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  using store = new TestStore({ tokenEntries: 40 });
  const model = new Map<string, Map<number, string>>();
  const keys = ["a", "b", "c".repeat(33), "d".repeat(250)];
  for (let step = 0; step < 400; step++) {
    const key = keys[below(keys.length)]!;
    const tokens = model.get(key) ?? new Map<number, string>();
    model.set(key, tokens);
    const isOut = tokens.size > 0;
    switch (below(6)) {
      case 0: {
        const owner = below(2) === 0 ? "" : "o".repeat(1 + below(64));
        const known = [...tokens].find(([, tag]) => tag !== "" && tag === owner)?.[0];
        const token = store.token(key, owner);
        if (known !== undefined) assertEquals(token, known);
        else if (token !== Outcome.TOO_MANY_TOKENS) tokens.set(idOf(token), owner);
        break;
      }
      case 1: {
        const ids = [...tokens.keys()];
        const id = below(3) === 0 || ids.length === 0 ? 99_999 : ids[below(ids.length)]!;
        const expected = tokens.delete(id) ? Outcome.OK : Outcome.NOT_FOUND;
        assertEquals(store.releaseToken(key, id), expected);
        break;
      }
      case 2:
        if (below(4) > 0) break;
        assertEquals(store.dropTokens(key), tokens.size);
        tokens.clear();
        break;
      case 3:
        assertEquals(store.store(SET, key, "x"), isOut ? Outcome.NOT_STORED : Outcome.STORED);
        break;
      case 4:
        if (isOut) assertEquals(store.get(key), undefined);
        break;
      case 5: {
        const lease = store.getss(key, 10);
        if (isOut) assert(typeof lease === "object" && lease.remain === 1);
      }
    }
    assertEquals(
      store.cache.inspector.tokenCount,
      [...model.values()].reduce((sum, { size }) => sum + size, 0),
    );
  }
}

Deno.test("update tokens equal a plain map, under random operations", () =>
  withSeed(drawSeed(), (seed) => {
    for (let run = 0; run < 40; run++) compareWithModel(seed + run);
  }));

Deno.test("a store that is full and evicts nothing still gives tokens", () => {
  using store = new TestStore({ memoryLimitBytes: 1_048_576, evictions: false });
  const value = "v".repeat(1000);
  let stored = 0;
  while (store.store(SET, `key ${stored}`, value) === Outcome.STORED) stored++;
  assertGreater(stored, 100);
  assertEquals(store.store(SET, "no room", value), Outcome.NO_MEMORY);
  const id = idOf(store.token("no room"));
  assertEquals(store.store(SET, "no room", value), Outcome.NOT_STORED);
  idOf(store.token("key 0"));
  assertEquals(store.get("key 0"), undefined);
  assertEquals(store.get("key 1"), value);
  assertEquals(store.releaseToken("no room", id), Outcome.OK);
  assertEquals(store.store(SET, "no room", value), Outcome.STORED, "in the place of key 0");
});

Deno.test("a key under a token shows a lease with a fresh id of 64 bits", () => {
  const store = new TestStore();
  idOf(store.token("k", "me"));
  const { cache, memory } = store;
  const { operation } = store;
  operation.idHigh = -1;
  const id = memory.control[CONTROL.ID_LOW]!;
  assertEquals(held(cache, () => cache.removeAndLease(operation)), Outcome.UNCACHEABLE);
  assertEquals([operation.idLow, operation.idHigh, operation.remainSec], [id + 1, 0, 1]);
});
