import { assert, assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import { formatCache, openCache, RowKind, type RowRequest } from "../../../store/row_cache.ts";
import { checkStore } from "../../../store/check/check.ts";
import { writeClock } from "../../../store/clock.ts";
import { MIB, ROOM_WAIT_SEC } from "../../../store/limits.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { CLASSES_MAX, CONTROL, createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { Operation } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import type { RowSession } from "../../../store/rows/row_session.ts";
import { NO_REQUEST, type RequestSlot, RequestState } from "../../../store/rows/row_requests.ts";
import { type ChangedOptions, held, keyIn, storeOptions } from "../../support/store.ts";

const encoder = new TextEncoder();

function makeCache(rightFrom?: string, changed: ChangedOptions = {}): Cache {
  const rows = { prefixes: [""], expiry: "refuse", rightFrom } as const;
  const options = storeOptions({ rows, leaseEntries: 100, ...changed });
  const memory = new Memory(createSharedMemory(options));
  return formatCache(memory);
}

function region(text: string): ByteRegion {
  return new ByteRegion(encoder.encode(text).buffer);
}

/** Submits a READ as a connection does. */
function ask(cache: Cache, key: string, owner = 1): RequestSlot {
  const { requests } = cache.rows!;
  cache.enter();
  const slot = requests.take(RowKind.READ, keyIn(cache, region(key), key.length), owner, 0);
  requests.submit(slot);
  requests.await(slot);
  cache.leave();
  return slot;
}

function take(cache: Cache): RowRequest[] {
  return held(cache, () => cache.rows!.take(100));
}

function valueIn(cache: Cache, key: string): string | null {
  cache.enter();
  const item = cache.peek(keyIn(cache, region(key), key.length));
  const bytes = new Uint8Array(item === NO_ITEM ? 0 : cache.valueLength(item));
  if (item !== NO_ITEM) cache.copyValue(item, 0, bytes.length, new ByteRegion(bytes.buffer), 0);
  cache.leave();
  return item === NO_ITEM ? null : new TextDecoder().decode(bytes);
}

const ROW = { flags: 7, data: encoder.encode("hello"), version: 42 };

Deno.test("a store without a database has no memory for requests to it", () => {
  assertEquals(createSharedMemory(storeOptions({})).rowRequests.byteLength, 0);
});

Deno.test("writes wait while the values that are copied take their share; reads go on", () => {
  const cache = makeCache(undefined, { memoryLimitBytes: 8 * MIB, itemSizeMaxBytes: 4 * MIB });
  const { rows, parking } = cache;
  const share = cache.memory.limitBytes / 4;
  const write = (key: string, owner: number, length = 1000): void => {
    const operation = new Operation(region(key + "v".repeat(length)));
    operation.begin(0, key.length);
    operation.owner = owner;
    operation.valueOffset = key.length;
    operation.valueLength = length;
    cache.enter();
    parking!.session = null;
    assertEquals(cache.store(operation), Outcome.PARKED);
    cache.leave();
  };
  const keysWith = (copiedBytes: number): string[] => {
    const taken = held(cache, () => rows!.take(100, copiedBytes));
    return taken.map(({ key }) => key);
  };
  write("a", 1);
  write("b", 2);
  ask(cache, "read", 3);
  assertEquals(keysWith(share - 500), ["read"]);
  assertEquals(keysWith(share - 1500), ["a"]);
  assertEquals(keysWith(0), ["b"]);
  write("long", 4, share + 1);
  write("short", 4);
  assertEquals(keysWith(1), [], "no write passes another");
  assertEquals(keysWith(0), ["long"], "one value may be of any length");
  assertEquals(keysWith(0), ["short"]);
});

Deno.test("a store that is too large says that it has no item, whatever was found before", () => {
  const cache = makeCache(undefined, { itemSizeMaxBytes: 2048 });
  const operation = new Operation(region("k"));
  operation.begin(0, 1);
  operation.owner = 1;
  operation.valueLength = 4096;
  operation.item = 1;
  assertEquals(held(cache, () => cache.store(operation)), Outcome.TOO_LARGE);
  assertEquals(operation.item, NO_ITEM);
});

Deno.test("a read fills the cache and answers everybody of its batch", () => {
  const cache = makeCache();
  const { rows } = cache;
  const slots = [ask(cache, "foo", 1), ask(cache, "foo", 2)];
  const taken = take(cache);
  assertEquals(taken.map(({ key, kind, owner }) => [key, kind, owner]), [["foo", 1, 1], [
    "foo",
    1,
    2,
  ]]);
  rows!.answerRead(taken, ROW, true);
  for (const slot of slots) {
    assertEquals(rows!.requests.stateOf(slot), RequestState.DONE);
    const item = rows!.requests.word(slot, REQUEST.RESULT);
    assertEquals([cache.valueLength(item), cache.clientFlags(item), cache.idLow(item)], [5, 7, 42]);
  }
  assertEquals(valueIn(cache, "foo"), "hello");
  assertEquals(rows!.detached.count, 1);
  checkStore(cache.memory);
});

Deno.test("a slot that is free again has no answer", () => {
  const cache = makeCache();
  const slot = ask(cache, "foo");
  cache.rows!.answerRead(take(cache), ROW, true);
  assert(held(cache, () => cache.parking!.isAnswered(slot)));
  held(cache, () => cache.rows!.free(slot));
  assert(!held(cache, () => cache.parking!.isAnswered(slot)));
});

Deno.test("what was read before the row was invalidated is answered and not cached", () => {
  const cache = makeCache();
  const slot = ask(cache, "foo");
  const taken = take(cache);
  assertEquals(held(cache, () => cache.rows!.removal.invalidate("foo", 0)), true);
  cache.rows!.answerRead(taken, ROW, true);
  assertEquals(cache.rows!.requests.outcomeOf(slot), Outcome.OK);
  assertEquals(valueIn(cache, "foo"), null);
  checkStore(cache.memory);
});

Deno.test("what was read under an update token is answered and not cached", () => {
  const cache = makeCache();
  for (const row of [ROW, null]) {
    const slot = ask(cache, "foo");
    cache.rows!.answerRead(take(cache), row, false);
    const outcome = row === null ? Outcome.NOT_FOUND : Outcome.OK;
    assertEquals(cache.rows!.requests.outcomeOf(slot), outcome);
    assertEquals(valueIn(cache, "foo"), null);
  }
  ask(cache, "foo");
  assertEquals(take(cache).length, 1, "nor is it remembered as absent");
  checkStore(cache.memory);
});

Deno.test("an absent row is remembered until it is invalidated", () => {
  const cache = makeCache();
  ask(cache, "foo");
  cache.rows!.answerRead(take(cache), null, true);
  checkStore(cache.memory);
  const slot = ask(cache, "foo");
  assertEquals(take(cache), []);
  assertEquals(cache.rows!.requests.outcomeOf(slot), Outcome.NOT_FOUND);
  held(cache, () => cache.rows!.removal.invalidate("foo", 0));
  ask(cache, "foo");
  assertEquals(take(cache).length, 1);
  checkStore(cache.memory);
});

Deno.test("a write that finds its row ends the lease of a client: there is nothing to fill", () => {
  for (const kind of [RowKind.STORE, RowKind.REMOVE]) {
    const cache = makeCache();
    const { requests } = cache.rows!;
    ask(cache, "foo");
    cache.rows!.answerRead(take(cache), null, true);
    cache.enter();
    const operation = Object.assign(new Operation(region("foo")), keyIn(cache, region("foo"), 3));
    operation.deadlineSec = cache.memory.control[CONTROL.NOW_SEC]! + 10;
    assertEquals(cache.getOrLease(operation), Outcome.LEASED);
    assertEquals(cache.findLease(operation), true);
    const slot = requests.take(kind, keyIn(cache, region("foo"), 3), 2, 0);
    requests.submit(slot);
    requests.await(slot);
    cache.leave();
    const [request] = take(cache);
    cache.rows!.answer(request!, Outcome.NOT_STORED, { version: 42 });
    cache.enter();
    assertEquals(cache.findLease(operation), kind === RowKind.REMOVE);
    cache.leave();
    checkStore(cache.memory);
  }
});

Deno.test("a reader that learns late that a row was absent gets no lease on the one that others made since", () => {
  for (const isCached of [false, true]) {
    const cache = makeCache();
    const { parking } = cache;
    const operation = Object.assign(new Operation(region("foo")), keyIn(cache, region("foo"), 3));
    operation.deadlineSec = cache.memory.control[CONTROL.NOW_SEC]! + 10;
    operation.owner = 1;
    assertEquals(held(cache, () => cache.getOrLease(operation)), Outcome.PARKED);
    const { session } = parking!;
    held(cache, () => parking!.isAnswered(parking!.awaited));
    cache.rows!.answerRead(take(cache), null, true);
    held(cache, () => cache.rows!.removal.invalidate("foo", 2));
    ask(cache, "foo", 2);
    cache.rows!.answerRead(take(cache), ROW, isCached);
    assertEquals(valueIn(cache, "foo"), isCached ? "hello" : null);
    parking!.session = session;
    assertEquals(held(cache, () => cache.getOrLease(operation)), Outcome.UNCACHEABLE);
    checkStore(cache.memory);
  }
});

/** Has rows read, and asks for them once more before they are in the cache. */
function askTwice(cache: Cache, keys: readonly string[], length: number): void {
  for (const key of keys) ask(cache, key, 1);
  const taken = take(cache);
  for (const key of keys) ask(cache, key, 2);
  const row = { ...ROW, data: new Uint8Array(length) };
  for (const request of taken) cache.rows!.answerRead([request], row, true);
}

Deno.test("a read is answered from the cache under a valid right only", () => {
  const cache = makeCache("the database");
  const { right } = cache.rows!;
  let nowMs = 1;
  right.nowMs = () => nowMs;
  right.renew(10);
  askTwice(cache, ["foo"], 5);
  assertEquals(take(cache), []);
  askTwice(cache, ["bar"], 5);
  nowMs = 10;
  assertEquals(take(cache).map(({ key }) => key), ["bar"]);
});

Deno.test("a read that the cache answers gets the row as a read of the database does", () => {
  const cache = makeCache();
  const { requests } = cache.rows!;
  const described = (slot: RequestSlot): unknown => {
    assertEquals(requests.stateOf(slot), RequestState.DONE);
    const { clientFlags, deadlineSec, idLow, idHigh, valueLength } = held(
      cache,
      () => cache.describe(requests.word(slot, REQUEST.RESULT)),
    );
    return { clientFlags, deadlineSec, idLow, idHigh, valueLength };
  };
  const nowSec = 1_700_000_000 + cache.memory.control[CONTROL.NOW_SEC]!;
  const version = 2 ** 40 + 5;
  for (const expiresUnixSec of [0, nowSec + 90]) {
    const key = `until ${expiresUnixSec}`;
    const first = ask(cache, key, 1);
    cache.rows!.answerRead(take(cache), { ...ROW, version, expiresUnixSec }, true);
    const second = ask(cache, key, 2);
    assertEquals(take(cache), []);
    assertEquals(described(second), described(first));
  }
  checkStore(cache.memory);
});

Deno.test("one hold of the mutex copies few values, for reads that the cache answers and for answers", () => {
  const cache = makeCache();
  const { rows } = cache;
  askTwice(cache, [..."abcdefg"], 10_000);
  ask(cache, "h");
  ask(cache, "i");
  const taken = take(cache);
  assertEquals(taken.map(({ key }) => key), ["g", "h", "i"]);

  const leave = cache.leave.bind(cache);
  let holds = 0;
  cache.leave = () => {
    holds++;
    leave();
  };
  const data = new Uint8Array(40_000);
  rows!.together(() => {
    for (const request of taken) rows!.answerRead([request], { ...ROW, data }, true);
  });
  assertEquals(holds, 2);
  checkStore(cache.memory);
});

Deno.test("the right to serve rows is the same for all threads, and ends at its deadline", () => {
  const cache = makeCache("the database");
  const other = openCache(new Memory(cache.memory.shared));
  const { right } = cache.rows!;
  let nowMs = 10;
  other.rows!.right.nowMs = () => nowMs;
  assertEquals([right.isTimed, other.rows!.right.isValid], [true, false]);
  right.renew(10.5);
  assertEquals(other.rows!.right.isValid, true);
  nowMs = 10.5;
  assertEquals(other.rows!.right.isValid, false);
});

Deno.test("a right without an end reads no clock", () => {
  const { right } = makeCache().rows!;
  right.nowMs = () => {
    throw new Error("the clock is read");
  };
  assertEquals([right.isTimed, right.isValid], [false, true]);
  right.end();
  assertEquals(right.isValid, false);
});

/** A cache whose values on their way to the database take all the memory that they may, but `left` bytes. */
function makeFullCache(left: number): { readonly cache: Cache; readonly free: () => void } {
  const cache = makeCache();
  const { detached } = cache.rows!;
  const share = cache.memory.limitBytes * 3 / 4;
  let bytes = share - left;
  Object.defineProperty(detached, "bytes", { get: () => bytes });
  const free = (): void => {
    bytes = 0;
    cache.enter();
    cache.leave();
  };
  return { cache, free };
}

/** A connection that stores a row. */
class Writer {
  session: RowSession | null = null;
  readonly #cache: Cache;
  readonly #operation: Operation;

  constructor(cache: Cache, key: string, owner: number, bytes: number, flags = 0) {
    this.#cache = cache;
    this.#operation = new Operation(region(key + "v".repeat(bytes)));
    this.#operation.begin(0, key.length);
    this.#operation.owner = owner;
    this.#operation.valueOffset = key.length;
    this.#operation.valueLength = bytes;
    this.#operation.clientFlags = flags;
  }

  store(): Outcome {
    return this.#ask((cache, operation) => cache.store(operation));
  }

  /** Waits for memory as a value does that has arrived in pieces, before it is stored. */
  awaitRoom(): Outcome {
    return this.#ask((cache, operation) => cache.parking!.awaitRoom(operation));
  }

  #ask(ask: (cache: Cache, operation: Operation) => Outcome): Outcome {
    const cache = this.#cache;
    const parking = cache.parking!;
    cache.enter();
    parking.session = this.session;
    const outcome = ask(cache, this.#operation);
    if (outcome === Outcome.PARKED) parking.isAnswered(parking.awaited);
    this.session = parking.session;
    parking.session = null;
    cache.leave();
    return outcome;
  }

  leave(): void {
    held(this.#cache, () => this.#cache.parking!.abandon(this.session!));
  }
}

/** Chunks in use, also those of items that nobody refers to. */
function chunksIn(cache: Cache): number {
  let chunks = 0;
  for (let classId = 0; classId < CLASSES_MAX; classId++) {
    chunks += cache.inspector.classWord(classId, "USED");
  }
  return chunks;
}

function readyIn(cache: Cache): number[] {
  const owners: number[] = [];
  for (let owner; (owner = cache.takeReady(0)) !== 0;) owners.push(owner);
  return owners;
}

Deno.test("writes wait for the memory of others' values, the oldest first", () => {
  const { cache, free } = makeFullCache(999);
  const [first, gone, second] = [1, 2, 3].map((owner) => new Writer(cache, "k", owner, 1000));
  for (const writer of [first!, gone!, second!]) assertEquals(writer.store(), Outcome.PARKED);
  const small = new Writer(cache, "small", 4, 10);
  assertEquals(small.store(), Outcome.PARKED, "it waits behind the others");
  assertEquals(take(cache).length, 0);
  assertEquals(readyIn(cache), []);
  assertEquals(first!.store(), Outcome.PARKED);
  gone!.leave();
  free();
  assertEquals(readyIn(cache), [1, 3, 4]);
  for (const writer of [first!, second!, small]) assertEquals(writer.store(), Outcome.PARKED);
  assertEquals(take(cache).map(({ key, owner }) => [key, owner]), [["k", 1], ["k", 3], [
    "small",
    4,
  ]]);
  assertEquals(cache.rows!.requests.inUse, 3);
});

Deno.test("a write waits for memory for a bounded time, and not at all if its value never fits", () => {
  const { cache, free } = makeFullCache(999);
  writeClock(cache.memory, 1000);
  const writer = new Writer(cache, "k", 1, 1000);
  assertEquals(writer.store(), Outcome.PARKED);
  writeClock(cache.memory, (1 + ROOM_WAIT_SEC) * 1000 - 1);
  cache.enter();
  cache.leave();
  assertEquals(readyIn(cache), []);
  writeClock(cache.memory, (1 + ROOM_WAIT_SEC) * 1000);
  cache.enter();
  cache.leave();
  assertEquals(readyIn(cache), [1]);
  assertEquals(writer.store(), Outcome.NO_MEMORY);
  assertEquals(cache.rows!.requests.inUse, 0);
  const { limitBytes } = cache.memory;
  assertEquals(new Writer(cache, "k", 1, limitBytes * 3 / 4 + 1).store(), Outcome.TOO_LARGE);
  free();
  assertEquals(writer.store(), Outcome.PARKED);
  assertEquals(take(cache).length, 1);
});

Deno.test("a write that waits for memory lets no other of its connection go first", () => {
  const { cache } = makeFullCache(999);
  const parking = cache.parking!;
  assertEquals(new Writer(cache, "other", 2, 1000).store(), Outcome.PARKED);
  const writer = new Writer(cache, "k", 1, 10);
  assertEquals(writer.store(), Outcome.PARKED);
  assert(writer.session!.awaitsRoom);
  parking.isAhead = true;
  const ahead = new Writer(cache, "ahead", 3, 10);
  assertEquals(ahead.store(), Outcome.PARKED);
  assertEquals(ahead.session, null, "ahead of its turn it does not wait");
  assert(parking.hasLeftAhead);
});

Deno.test("a write that waits for memory gives up what its connection has read ahead", () => {
  const { cache, free } = makeFullCache(999);
  const { requests } = cache.rows!;
  const writer = new Writer(cache, "k", 1, 1000);
  cache.enter();
  const parking = cache.parking!;
  parking.session = null;
  parking.read(keyIn(cache, region("ahead"), 5), 1);
  writer.session = parking.session;
  parking.session = null;
  cache.leave();
  assertEquals(writer.awaitRoom(), Outcome.PARKED);
  assertEquals(requests.inUse, 1, "the read is given up");
  free();
  assertEquals(writer.store(), Outcome.PARKED);
  assertEquals(take(cache).map(({ key }) => key), ["k"]);
  assertEquals(requests.inUse, 1);
});

Deno.test("the database gets the client flags that the client gave, all 32 bits of them", () => {
  const cache = makeCache();
  for (const flags of [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]) {
    assertEquals(new Writer(cache, "k", 1, 5, flags).store(), Outcome.PARKED);
    assertEquals(take(cache).map((request) => request.flags), [flags]);
  }
});

Deno.test("an answer for a connection that ends while its row is copied leaves nothing behind", () => {
  const cache = makeCache();
  const { requests, detached } = cache.rows!;
  const data = new Uint8Array(100_000);
  cache.enter();
  const slot = requests.take(RowKind.TOUCH, keyIn(cache, region("k"), 1), 1, 0);
  requests.submit(slot);
  cache.leave();
  const [request] = take(cache);
  const { inUse } = requests;
  const before = chunksIn(cache);
  let left = 0;
  const { leave } = cache;
  cache.leave = () => {
    // The first time is in the middle of the copy.
    if (left++ === 0) requests.orphan(slot);
    leave.call(cache);
  };
  cache.rows!.answer(request!, Outcome.TOUCHED, {
    version: 1,
    row: { flags: 0, version: 1, data },
  });
  assertEquals(left, 2);
  assertEquals([inUse, requests.inUse, detached.count], [1, 0, 0]);
  assertEquals(chunksIn(cache), before);
});

Deno.test("rows of a prefix are removed, with the leases under which they are read", () => {
  const cache = makeCache();
  const { rows } = cache;
  const fill = (key: string): void => {
    ask(cache, key);
    rows!.answerRead(take(cache), key === "a:absent" ? null : ROW, true);
  };
  for (const key of ["a:1", "a:absent", "b:1", "a"]) fill(key);
  ask(cache, "a:2");
  const old = take(cache);
  const walk = rows!.removal.dropRows(["a:"]);
  walk.next();
  ask(cache, "a:3");
  const fresh = take(cache);
  while (!walk.next().done);
  for (const requests of [old, fresh]) rows!.answerRead(requests, ROW, true);
  const left = ["a:1", "a:2", "a:3", "b:1", "a"].filter((key) => valueIn(cache, key) !== null);
  assertEquals(left, ["a:3", "b:1", "a"]);
  ask(cache, "a:absent");
  assertEquals(take(cache).length, 1);
  checkStore(cache.memory);
});

Deno.test("every lease of a read is removed with the rows, also where many share a bucket", () => {
  const cache = makeCache();
  const keys = Array.from({ length: 90 }, (_, n) => `a:${n}`);
  for (const key of keys) ask(cache, key);
  const requests = take(cache);
  assertEquals(requests.length, keys.length);
  for (const walk = cache.rows!.removal.dropRows(["a:"]); !walk.next().done;);
  cache.rows!.answerRead(requests, ROW, true);
  assertEquals(keys.filter((key) => valueIn(cache, key) !== null), []);
  checkStore(cache.memory);
});

Deno.test("a locked row of a prefix loses its value and keeps its lock", () => {
  const cache = makeCache();
  ask(cache, "a:1");
  cache.rows!.answerRead(take(cache), ROW, true);
  const operation = new Operation(region("a:1"));
  operation.begin(0, 3);
  operation.owner = 5;
  assertEquals(held(cache, () => cache.lock(operation)), Outcome.OK);
  for (const walk = cache.rows!.removal.dropRows([""]); !walk.next().done;);
  assertEquals(valueIn(cache, "a:1"), null);
  cache.enter();
  assertEquals(cache.rows!.removal.invalidate("a:1", 6), false);
  assertEquals(cache.rows!.removal.invalidate("a:1", 5), true);
  cache.leave();
  checkStore(cache.memory);
});

Deno.test("the bell rings when the mutex is free after a request, and only then", () => {
  const cache = makeCache();
  const { requests } = cache.rows!;
  const { bell } = requests;
  ask(cache, "foo");
  assertEquals(requests.bell, bell + 1);
  valueIn(cache, "foo");
  assertEquals(requests.bell, bell + 1);
});

Deno.test("a write that is refused because too many requests wait gives its value's memory back", () => {
  const cache = makeCache(undefined, { memoryLimitBytes: 8 * MIB });
  const { requests } = cache.rows!;
  const slots: RequestSlot[] = [];
  cache.enter();
  for (let owner = 1;; owner++) {
    const slot = requests.take(RowKind.READ, keyIn(cache, region("other"), 5), owner, 0);
    if (slot === NO_REQUEST) break;
    slots.push(slot);
  }
  cache.leave();
  const length = 100_000;
  const operation = new Operation(region("k" + "v".repeat(length)));
  const outcomes = new Set<Outcome>();
  // More than all memory.
  for (let round = 0; round < 200; round++) {
    operation.begin(0, 1);
    operation.owner = 1;
    operation.valueOffset = 1;
    operation.valueLength = length;
    cache.enter();
    cache.parking!.session = null;
    outcomes.add(cache.store(operation));
    cache.leave();
  }
  assertEquals([...outcomes], [Outcome.TOO_MANY_REQUESTS]);
  assert(slots.length > 0);
});
