import { assert, assertEquals } from "@std/assert";
import { ByteRegion, latin1Text } from "../../../store/base/bytes.ts";
import { ATTEMPTS_MAX, NO_ITEM, ReadOutcome } from "../../../store/cache.ts";
import { type ItemRef, STATE, WORD } from "../../../store/memory/item.ts";
import { CONTROL, SEGMENT_MASK } from "../../../store/memory/memory.ts";
import { type Key, StoreMode } from "../../../store/operation.ts";
import { STAT, THREAD_STAT } from "../../../store/stats.ts";
import { MIB } from "../../../store/limits.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { type ChangedOptions, keyIn, movePage, TestStore } from "../../support/store.ts";

const encoder = new TextEncoder();

class ReadStore extends TestStore {
  readonly copied = new ByteRegion(new ArrayBuffer(64 * 1024));

  constructor(changed: ChangedOptions = {}) {
    super({ optimisticReads: true, threads: 2, memoryLimitBytes: 2 * MIB, ...changed });
  }

  /** Writes a key into the input. */
  keyOf(key: string): Key {
    const bytes = encoder.encode(key);
    this.input.bytes.set(bytes);
    return keyIn(this.cache, this.input, bytes.length);
  }

  hashOf(key: string): number {
    return this.keyOf(key).hash;
  }

  isInGroupOf(key: string, other: string): boolean {
    return ((this.hashOf(key) ^ this.hashOf(other)) & this.memory.versions.mask) === 0;
  }

  /** @param hash Left out: the key's. */
  find(key: string, hash = this.hashOf(key)): ReadOutcome {
    return this.cache.optimistic.find({ ...this.keyOf(key), hash });
  }

  /** The value that `find` has found. */
  copy(): string {
    const { found } = this.cache.optimistic;
    found.copyValue(this.copied, 0);
    return latin1Text(this.copied.bytes, 0, found.valueLength);
  }

  set(key: string, value: string, fields: Parameters<TestStore["store"]>[3] = {}): void {
    this.store(StoreMode.SET, key, value, fields);
  }

  /** The item, which is not noted as read. */
  peek(key: string): ItemRef {
    return this.cache.peek(this.keyOf(key));
  }

  /** Begins an operation on a key, for operations that TestStore has no method for. */
  operate(key: string): void {
    this.hashOf(key);
    this.operation.begin(0, key.length);
  }
}

Deno.test("a read without the mutex finds value, flags, id and deadline of an item", () => {
  const store = new ReadStore();
  store.set("key", "value", { clientFlags: -1, deadlineSec: 5000 });
  const { optimistic } = store.cache;
  assertEquals(store.find("key"), ReadOutcome.HIT);
  assertEquals(store.copy(), "value");
  const { found } = optimistic;
  assertEquals(found.clientFlags, 0xffffffff);
  assertEquals(found.remainSec, 5000 - store.memory.control[CONTROL.NOW_SEC]!);
  const item = store.item("key");
  assertEquals(found.idLow, store.cache.idLow(item));
  assertEquals(found.idHigh, store.cache.idHigh(item));
  assert(optimistic.confirm());
  assertEquals(store.find("other"), ReadOutcome.MISS);
});

Deno.test("a read without the mutex finds an explicit id, and its hit is noted for the item's own", () => {
  const store = new ReadStore();
  const ids = { explicit: true, explicitLow: 7, explicitHigh: 1, clientFlags: 3 };
  store.set("key", "value", ids);
  const { optimistic } = store.cache;
  assertEquals(store.find("key"), ReadOutcome.HIT);
  assertEquals([store.copy(), optimistic.found.idLow, optimistic.found.idHigh], ["value", 7, 1]);
  optimistic.noteHit(store.keyOf("key"), true);
  store.cache.applyHits();
  const item = store.peek("key");
  assertEquals(store.cache.describe(item).wasFetched, true);
});

/** The reads that are left to the mutex, and their causes. */
const LEFT: Readonly<Record<string, (store: ReadStore) => void>> = {
  "a value in a chain of chunks": (store) => store.set("key", "x".repeat(20_000)),
  "a placeholder": (store) => {
    store.operate("key");
    store.cache.meta.makeStub(store.operation);
  },
  "an expired item": (store) => {
    store.set("key", "v", { deadlineSec: store.memory.control[CONTROL.NOW_SEC]! + 1 });
    store.clock(2000);
  },
  "a flushed item": (store) => {
    store.set("key", "v");
    store.cache.flushAll(0);
  },
};

for (const [name, make] of Object.entries(LEFT)) {
  Deno.test(`a read without the mutex leaves ${name} to it`, () => {
    const store = new ReadStore();
    make(store);
    assertEquals(store.find("key"), ReadOutcome.BUSY);
  });
}

Deno.test("a read without the mutex gives up while a version is odd", () => {
  const store = new ReadStore();
  store.set("key", "value");
  const { versions, threadStats } = store.memory;
  const begun = versions.begin(store.hashOf("key"));
  assertEquals(store.find("key"), ReadOutcome.BUSY);
  assertEquals(threadStats[THREAD_STAT.read_retries], ATTEMPTS_MAX);
  versions.end(begun);
  assertEquals(store.find("key"), ReadOutcome.HIT);
});

Deno.test("reads without the mutex stop while a flush is scheduled or a client watches", () => {
  const store = new ReadStore();
  assert(store.cache.optimistic.isAllowed);
  store.cache.flushAll(store.memory.control[CONTROL.NOW_SEC]! + 10);
  assert(!store.cache.optimistic.isAllowed);
  store.cache.flushAll(0);
  assert(store.cache.optimistic.isAllowed);
  store.memory.control[CONTROL.WATCHED] = 1;
  assert(!store.cache.optimistic.isAllowed);
});

/** Every change that a reader in the middle of "key" must notice. The value is "12345". */
const NOTICED: Readonly<Record<string, (store: ReadStore) => void>> = {
  "overwritten in place": (store) => store.set("key", "54321"),
  "replaced by a longer value": (store) => store.set("key", "x".repeat(500)),
  deleted: (store) => void store.remove("key"),
  "appended to in place": (store) => void store.store(StoreMode.APPEND, "key", "6"),
  "appended to in another chunk": (store) =>
    void store.store(StoreMode.APPEND, "key", "6".repeat(500)),
  "prepended to": (store) => void store.store(StoreMode.PREPEND, "key", "0"),
  "incremented in place": (store) => void store.add("key", 1, true),
  "incremented to more digits": (store) => void store.add("key", 99_999_999, true),
  "decremented to fewer digits": (store) => void store.add("key", 12_340, false),
  "given an id that a client chose": (store) =>
    void store.add("key", 1, true, { explicit: true, explicitLow: 7, explicitHigh: 0 }),
  "stored in pieces": (store) => {
    store.storeInPieces(StoreMode.SET, "key", encoder.encode("abcde"), 2);
  },
  evicted: (store) => {
    for (let count = 0; store.peek("key") !== NO_ITEM; count++) {
      store.set(`other${count}`, "54321");
    }
  },
  "moved to another page": (store) => {
    const before = store.item("key");
    for (let count = 0; store.item("key") === before; count++) {
      store.set(`other${count}`, "54321");
      movePage(store.cache, store.cache.links.slabs.classOf(before), 0);
    }
    assert(store.item("key") !== NO_ITEM, "the item has moved, it was not evicted");
  },
  "expired and swept": (store) => {
    store.touch("key", store.memory.control[CONTROL.NOW_SEC]! + 1);
    store.clock(5000);
    while (store.cache.maintain());
  },
  flushed: (store) => store.cache.flushAll(0),
  "marked stale": (store) => {
    store.operate("key");
    store.cache.meta.markStale(store.operation, false);
  },
  "marked stale, with an id that a client chose": (store) => {
    store.operate("key");
    Object.assign(store.operation, { explicit: true, explicitLow: 7, explicitHigh: 0 });
    store.cache.meta.markStale(store.operation, false);
  },
  won: (store) => store.cache.meta.markWon(store.item("key")),
  emptied: (store) => {
    store.operate("key");
    store.cache.meta.empty(store.operation, false);
  },
  "taken away by deletess": (store) => void store.deletess("key", 10),
  "taken away by an update token": (store) => void store.token("key"),
  "in a bucket that got another item": (store) => {
    for (let count = 0;; count++) {
      if (store.isInGroupOf("key", `other${count}`)) return store.set(`other${count}`, "v");
    }
  },
  "in a bucket that was split": (store) => {
    const { control } = store.memory;
    const level = control[CONTROL.HASH_LEVEL]!;
    const bucket = store.cache.links.index.bucketOf(store.hashOf("key"));
    for (let count = 0; control[CONTROL.HASH_BUCKETS]! <= level + bucket; count++) {
      if (!store.isInGroupOf("key", `other${count}`)) store.set(`other${count}`, "");
    }
  },
};

for (const [name, change] of Object.entries(NOTICED)) {
  Deno.test(`a read without the mutex notices that the item was ${name}`, () => {
    using store = new ReadStore();
    store.set("key", "12345");
    assertEquals(store.find("key"), ReadOutcome.HIT);
    assertEquals(store.copy(), "12345");
    change(store);
    assert(!store.cache.optimistic.confirm());
  });
}

/** Changes of nothing that a read without the mutex copies, or of one word alone. */
const UNNOTICED: Readonly<Record<string, (store: ReadStore) => void>> = {
  read: (store) => void store.item("key"),
  touched: (store) => void store.touch("key", 5000),
  locked: (store) => void store.lock("key", 1),
};

for (const [name, change] of Object.entries(UNNOTICED)) {
  Deno.test(`a read without the mutex is not disturbed when the item is ${name}`, () => {
    const store = new ReadStore();
    store.set("key", "12345");
    assertEquals(store.find("key"), ReadOutcome.HIT);
    change(store);
    assert(store.cache.optimistic.confirm());
  });
}

/** Whole numbers of 32 bits, many of them close to limits. */
function wordsFrom(seed: number): () => number {
  const random = randomFrom(seed);
  const edges = [0, 1, -1, 0x7fffffff, -0x80000000, SEGMENT_MASK, SEGMENT_MASK - 1, 1 << 27];
  return () => {
    const word = (random() * 2 ** 32) | 0;
    switch (word & 7) {
      case 0:
        return edges[(word >>> 3) % edges.length]!;
      case 1:
        return (word >>> 3) % (1 << 19);
      case 2:
        return 3 | ((word >>> 3) & (STATE.HAS_FLAGS | STATE.LINKED));
      default:
        return word;
    }
  };
}

Deno.test("torn references, lengths and chains neither throw nor loop", async () => {
  await withSeed(drawSeed(), (seed) => {
    const nextWord = wordsFrom(seed);
    const store = new ReadStore();
    store.set("key", "12345", { clientFlags: 7 });
    const item = store.item("key");
    const { links, items } = store.cache;
    const { memory } = store;
    const bucket = links.index.bucketOf(store.hashOf("key"));
    const directory = memory.directory[0]!;
    const headWord = ((directory & SEGMENT_MASK) << 1) + bucket;
    const words = memory.words[0]!;
    const itemWord = (item & SEGMENT_MASK) << 1;
    const good = words.slice(itemWord, itemWord + 16);
    for (let round = 0; round < 20_000; round++) {
      words.set(good, itemWord);
      words[headWord] = round % 2 === 0 ? item : nextWord();
      for (let count = round % 5; count > 0; count--) {
        const word = [WORD.STATE, WORD.HASH_NEXT, WORD.ID_MIDDLE_AND_LENGTH, 8][count - 1]!;
        items.setWord(item, word, nextWord());
      }
      if (store.find("key") === ReadOutcome.HIT) store.copy();
    }
    words.set(good, itemWord);
    words[headWord] = item;
    items.setWord(item, WORD.HASH_NEXT, item);
    const hash = store.hashOf("key");
    assertEquals(store.find("yek", hash), ReadOutcome.BUSY, "a cycle is left");
    return Promise.resolve();
  });
});

Deno.test("a torn reference to the end of a segment is not followed beyond it", () => {
  const store = new ReadStore();
  store.set("key", "12345");
  const { memory } = store;
  const [words] = memory.words as [Int32Array];
  const itemWord = (store.item("key") & SEGMENT_MASK) << 1;
  const item = words.slice(itemWord, itemWord + 10);
  const bucket = store.cache.links.index.bucketOf(store.hashOf("key"));
  const headWord = ((memory.directory[0]! & SEGMENT_MASK) << 1) + bucket;
  for (const count of [2, 8, 10]) {
    words.fill(0, words.length - count);
    words.set(item.subarray(0, count), words.length - count);
    words[headWord] = (words.length - count) >>> 1;
    if (count === 10) {
      // The value would fit, but not its torn length.
      assertEquals(store.find("key"), ReadOutcome.HIT);
      words[words.length - count + WORD.ID_MIDDLE_AND_LENGTH] = 6;
    }
    assertEquals(store.find("key"), ReadOutcome.BUSY, `${count} words`);
  }
});

Deno.test("hits and misses of reads without the mutex are counted as those with it", () => {
  const counts = [true, false].map((optimistic) => {
    const store = new ReadStore();
    store.set("key", "12345");
    const { cache } = store;
    for (const key of ["key", "none", "key"]) {
      if (!optimistic) store.item(key);
      else if (store.find(key) === ReadOutcome.MISS) cache.optimistic.countMiss(store.keyOf(key));
      else cache.optimistic.noteHit(store.keyOf(key), true);
    }
    const { inspector } = cache;
    const classId = cache.links.slabs.classOf(store.item("key"));
    return [
      store.memory.stat(STAT.cmd_get),
      store.memory.stat(STAT.get_misses),
      inspector.classStat(classId, "get_hits"),
    ];
  });
  assertEquals(counts[0], counts[1]);
});
