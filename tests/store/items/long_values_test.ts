import { assert, assertEquals } from "@std/assert";
import { Cache } from "../../../store/cache.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { CONTROL, SEGMENT_SHIFT } from "../../../store/memory/memory.ts";
import { NO_ITEM, SHORT_LENGTH_MAX } from "../../../store/memory/item.ts";
import { COPY_BYTES_MAX, MIB, UNPINNED_BYTES_MAX } from "../../../store/limits.ts";
import { Outcome } from "../../../store/outcome.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { held, TestStore } from "../../support/store.ts";

// Long values are copied in pieces, and the mutex is yielded in between.

const { SET, APPEND, PREPEND } = StoreMode;
const LONG = "a".repeat(300_000);
const LAYOUTS = [
  { slabLayout: "leased" },
  { slabLayout: "memcached", growthFactor: 1.25 },
] as const;

/** Runs `act` the first time that the store yields the mutex. Returns a count of the yields. */
function atFirstYield(store: TestStore, act: (other: OtherThread) => void): () => number {
  const other = new OtherThread(store);
  const { cache } = store;
  const leave = cache.leave.bind(cache);
  let yields = 0;
  cache.leave = () => {
    leave();
    if (yields++ === 0) act(other);
  };
  return () => yields;
}

/** Another thread's view of the store. */
class OtherThread {
  readonly cache: Cache;
  readonly operation = new Operation(new ByteRegion(new ArrayBuffer(MIB)));

  constructor(store: TestStore) {
    this.cache = new Cache(store.memory);
  }

  /** Names the key of the next operation. */
  key(key: string): Operation {
    const { operation } = this;
    operation.keyLength = new TextEncoder().encodeInto(key, operation.input.bytes).written;
    operation.mode = SET;
    return operation;
  }

  set(key: string, value: string): void {
    const operation = this.key(key);
    operation.valueOffset = 300;
    new TextEncoder().encodeInto(value, operation.input.bytes.subarray(300));
    operation.valueLength = value.length;
    this.#do(() => assertEquals(this.cache.store(operation), Outcome.STORED));
  }

  remove(key: string): void {
    this.#do(() => assertEquals(this.cache.remove(this.key(key)), Outcome.DELETED));
  }

  touch(key: string, deadlineSec: number): void {
    const operation = this.key(key);
    operation.deadlineSec = deadlineSec;
    this.#do(() => assertEquals(this.cache.touch(operation), Outcome.TOUCHED));
  }

  lock(key: string, owner: number): void {
    const operation = this.key(key);
    operation.owner = owner;
    this.#do(() => assertEquals(this.cache.lock(operation), Outcome.OK));
  }

  #do(act: () => void): void {
    held(this.cache, () => act());
  }
}

for (const layout of LAYOUTS) {
  const test = (name: string, run: (store: TestStore) => void): void =>
    Deno.test(`${name}, layout ${layout.slabLayout}`, () => {
      using store = new TestStore(layout);
      store.store(SET, "key", LONG, { clientFlags: 7 });
      run(store);
    });

  test("append and prepend to a long value yield the mutex", (store) => {
    const yields = atFirstYield(store, (other) => other.set("another", "x"));
    assertEquals(store.store(APPEND, "key", "<>"), Outcome.STORED);
    assertEquals(store.store(PREPEND, "key", "()"), Outcome.STORED);
    assert(yields() > 8, `${yields()} yields`);
    assertEquals(store.get("key"), `()${LONG}<>`);
    assertEquals(store.get("another"), "x");
  });

  test("a long piece is added to a long value", (store) => {
    const piece = new TextEncoder().encode("b".repeat(200_000));
    assertEquals(store.storeInPieces(APPEND, "key", piece, 50_000), Outcome.STORED);
    assertEquals(store.get("key"), LONG + "b".repeat(200_000));
    atFirstYield(store, (other) => other.set("key", "new"));
    assertEquals(store.storeInPieces(PREPEND, "key", piece, 50_000), Outcome.STORED);
    assertEquals(store.get("key"), "b".repeat(200_000) + "new");
  });

  test("append() to a value that was replaced during it extends the new value", (store) => {
    atFirstYield(store, (other) => other.set("key", "new"));
    assertEquals(store.store(APPEND, "key", "<>"), Outcome.STORED);
    assertEquals(store.get("key"), "new<>");
  });

  test("append() to a value that was removed during it stores nothing", (store) => {
    atFirstYield(store, (other) => other.remove("key"));
    assertEquals(store.store(APPEND, "key", "<>"), Outcome.NOT_STORED);
    assertEquals(store.get("key"), undefined);
  });

  test("append() to a value that was locked during it is refused", (store) => {
    atFirstYield(store, (other) => other.lock("key", 5));
    assertEquals(store.store(APPEND, "key", "<>", { owner: 4 }), Outcome.LOCKED);
    assertEquals(store.get("key"), LONG);
  });

  test("append() to a value that was touched during it keeps the new deadline", (store) => {
    atFirstYield(store, (other) => other.touch("key", 50));
    assertEquals(store.store(APPEND, "key", "<>"), Outcome.STORED);
    assertEquals(store.get("key"), `${LONG}<>`);
    store.clock(60_000);
    assertEquals(store.get("key"), undefined);
  });

  test("append() comes to an end although others always change the value", (store) => {
    const other = new OtherThread(store);
    const { cache } = store;
    const leave = cache.leave.bind(cache);
    let writes = 0;
    cache.leave = () => {
      leave();
      if (writes < 100) other.set("key", `${writes++}`.padEnd(200_000));
    };
    assertEquals(store.store(APPEND, "key", "<>"), Outcome.STORED);
    assert(writes < 20, `${writes} writes`);
  });

  test("a value longer than UNPINNED_BYTES_MAX can be pinned and is never overwritten", (store) => {
    const value = "b".repeat(UNPINNED_BYTES_MAX + 1);
    store.store(SET, "key", value);
    const item = store.item("key");
    assert(item !== NO_ITEM && store.cache.pin(item));
    store.store(SET, "key", "c".repeat(value.length));
    const read = new ByteRegion(new ArrayBuffer(value.length));
    store.cache.copyValue(item, 0, value.length, read, 0);
    assertEquals(new TextDecoder().decode(read.bytes), value);
    store.cache.unpin(item);
    store.check();
  });

  test("a pinned value that was removed is freed when it is no longer pinned", (store) => {
    const value = "b".repeat(UNPINNED_BYTES_MAX + 1);
    const bytes = 2 * store.memory.options.memoryLimitBytes;
    for (let stored = 0; stored < bytes; stored += value.length) {
      assertEquals(store.store(SET, "key", value), Outcome.STORED);
      const item = store.item("key");
      assert(store.cache.pin(item));
      store.remove("key");
      store.cache.unpin(item);
    }
    store.check();
  });

  test("values on both sides of SHORT_LENGTH_MAX replace and extend each other", (store) => {
    for (let length = SHORT_LENGTH_MAX - 1; length <= SHORT_LENGTH_MAX + 2; length++) {
      for (const fields of [{}, { clientFlags: 7 }, { explicit: true, explicitLow: 5 }]) {
        for (const before of ["", "b".repeat(SHORT_LENGTH_MAX), "b".repeat(SHORT_LENGTH_MAX + 1)]) {
          store.store(SET, "key", before);
          const value = "v".repeat(length);
          assertEquals(store.store(SET, "key", value, fields), Outcome.STORED);
          assertEquals(store.get("key"), value);
          assertEquals(store.store(APPEND, "key", "<>"), Outcome.STORED);
          assertEquals(store.store(PREPEND, "key", "()"), Outcome.STORED);
          assertEquals(store.get("key"), `()${value}<>`);
        }
      }
    }
  });

  Deno.test(`no hold of the mutex copies more than COPY_BYTES_MAX, layout ${layout.slabLayout}`, () => {
    using side = new ConversationSide(
      layout.slabLayout === "leased" ? [] : ["-o", "slab_layout=memcached"],
    );
    const { cache, reply } = side.thread;
    let copied = 0;
    let most = 0;
    const count = (length: number): void => {
      copied += length;
      most = Math.max(most, copied);
    };
    const { values } = cache;
    const write = values.write.bind(values);
    values.write = (...args) => {
      count(args[4]);
      write(...args);
    };
    const read = values.read.bind(values);
    values.read = (...args) => {
      count(args[2]);
      read(...args);
    };
    const enter = cache.enter.bind(cache);
    cache.enter = () => {
      enter();
      copied = 0;
    };
    const peer = side.connect();
    for (const length of [20_000, 40_000, 100_000, 500_000, 900_000]) {
      const key = `key${length}`;
      peer.ask(`set ${key} 0 0 ${length}\r\n${"v".repeat(length)}\r\n`);
      peer.ask(`append ${key} 0 0 100\r\n${"v".repeat(100)}\r\n`);
      peer.ask(`prepend ${key} 0 0 60000\r\n${"v".repeat(60_000)}\r\n`);
      const total = length + 60_100;
      const value = "v".repeat(total);
      const block = `VALUE ${key} 0 ${total}\r\n${value}\r\n`;
      assertEquals(peer.ask(`get ${key}\r\n`.repeat(3)), `${block}END\r\n`.repeat(3));
      assertEquals(peer.ask(`get ${`${key} `.repeat(9)}\r\n`), `${block.repeat(9)}END\r\n`);
      assertEquals(peer.ask(`mg ${key} v\r\n`.repeat(3)), `VA ${total}\r\n${value}\r\n`.repeat(3));
    }
    peer.ask(`set small 0 0 3000\r\n${"s".repeat(3000)}\r\n`);
    peer.ask("get small\r\n".repeat(60));
    peer.ask(`get ${"small ".repeat(60)}\r\n`);
    assert(most > UNPINNED_BYTES_MAX && most <= COPY_BYTES_MAX, `${most} bytes`);
    assertEquals(reply.valueSegments.count, 0);
  });
}

Deno.test("a value is found in the segment of memory where it is, after one of another segment", () => {
  const store = new TestStore({ memoryLimitBytes: 1100 * MIB });
  const { values } = store.cache;
  store.store(SET, "low", LONG);
  // The store's next page begins behind the first gibibyte.
  store.memory.control[CONTROL.PAGES_EVER_USED] = 2 ** 30 / store.memory.pageBytes;
  store.store(SET, "high", "h".repeat(5000));
  const [low, high] = [store.item("low"), store.item("high")];
  assertEquals([low, high].map((item) => item >>> SEGMENT_SHIFT), [0, 1]);
  for (const item of [low, high, low]) {
    values.locate(item, 0);
    assertEquals(values.pieceSegment, item >>> SEGMENT_SHIFT);
  }
});
