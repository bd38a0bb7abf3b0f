import { assert, assertEquals } from "@std/assert";
import { type ItemRef, NO_ITEM } from "../../../store/cache.ts";
import { MIB } from "../../../store/limits.ts";
import { FREQUENCY_MASK, FREQUENCY_ONE, STATE } from "../../../store/memory/item.ts";
import { type Operation, StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { held, keyIn, TestStore } from "../../support/store.ts";

const { SET, ADD, REPLACE, APPEND, PREPEND, CAS } = StoreMode;
const KEY = "k";
const { KEY_BINARY, STALE, WON, STUB } = STATE;
const FLAGS = 5;
const DEADLINE_SEC = 500;
const CHOSEN_ID = 77;
const withChosenId = { explicit: true, explicitLow: CHOSEN_ID, explicitHigh: 0 };

/** What clients can learn of an item, its id aside. */
interface ItemState {
  length: number;
  flags: number;
  deadlineSec: number;
  reads: number;
  fetched: boolean;
  stale: boolean;
  won: boolean;
  stub: boolean;
  binary: boolean;
}

/** The item of KEY, without a trace. */
function peek({ cache, input }: TestStore): ItemRef {
  input.bytes.set(new TextEncoder().encode(KEY));
  return cache.peek(keyIn(cache, input, KEY.length));
}

function stateOf(store: TestStore): ItemState {
  const { cache } = store;
  const item = peek(store);
  assert(item !== NO_ITEM);
  const state = cache.items.state(item);
  const has = (bit: number): boolean => (state & bit) !== 0;
  return {
    length: cache.valueLength(item),
    flags: cache.clientFlags(item),
    deadlineSec: cache.deadlineSec(item),
    reads: (state & FREQUENCY_MASK) / FREQUENCY_ONE,
    fetched: has(STATE.FETCHED),
    stale: has(STALE),
    won: has(WON),
    stub: has(STUB),
    binary: has(KEY_BINARY),
  };
}

const ID_WORDS = { compare: true } as const;

/** The id of KEY's item, as a store compares it. */
function ofItem(store: TestStore): Partial<Operation> {
  const { cache } = store;
  const item = peek(store);
  return { ...ID_WORDS, compareLow: cache.idLow(item), compareHigh: cache.idHigh(item) };
}

function newStore(): TestStore {
  return new TestStore({ memoryLimitBytes: 4 * MIB });
}

/** A store whose item has flags, a deadline, two reads and these marks. */
function storeWith(value: Uint8Array, marks: number, fields: Partial<Operation> = {}): TestStore {
  const store = newStore();
  // An item whose own id were older than the flush would be dead.
  store.cache.flushAll(0);
  store.storeInPieces(SET, KEY, value, value.length || 1, {
    clientFlags: FLAGS,
    deadlineSec: DEADLINE_SEC,
    marks,
    ...fields,
  });
  for (let reads = 0; reads < 2; reads++) store.item(KEY);
  return store;
}

/** One chunk, twice; a chain; a chain whose copy yields the mutex. */
const LENGTHS = [3, 40, 40_000, 200_000];
const MARKS = [0, STALE, STALE | WON, WON, KEY_BINARY, STUB | WON, KEY_BINARY | STALE | WON];

/** The ways in which a value comes: as one; in pieces; with an id that the client chose. */
const WAYS: Record<
  string,
  (store: TestStore, mode: StoreMode, value: Uint8Array, fields: Partial<Operation>) => Outcome
> = {
  whole: (store, mode, value, fields) => store.store(mode, KEY, value, fields),
  pieces: (store, mode, value, fields) => store.storeInPieces(mode, KEY, value, 20_000, fields),
  "chosen id": (store, mode, value, fields) =>
    store.store(mode, KEY, value, { ...fields, ...withChosenId }),
  "chosen id, pieces": (store, mode, value, fields) =>
    store.storeInPieces(mode, KEY, value, 20_000, { ...fields, ...withChosenId }),
};

Deno.test("a store leaves the same item, whatever was there and however the value comes", () => {
  for (const mode of [SET, REPLACE, CAS, APPEND, PREPEND]) {
    for (const [way, put] of Object.entries(WAYS)) {
      for (const before of LENGTHS) {
        for (const length of LENGTHS) {
          // Long values are slow.
          const isShort = before + length < 100;
          const ofLong = MARKS[(before + length + mode) % MARKS.length]!;
          for (const marks of isShort ? MARKS : [ofLong]) {
            using store = storeWith(new Uint8Array(before), marks);
            const fields: Partial<Operation> = { clientFlags: 9, deadlineSec: 900 };
            if (mode === CAS) Object.assign(fields, ofItem(store));
            const isExtending = mode === APPEND || mode === PREPEND;
            assertEquals(put(store, mode, new Uint8Array(length), fields), Outcome.STORED);
            const id = store.changedId();
            assertEquals(stateOf(store), {
              length: isExtending ? before + length : length,
              flags: isExtending ? FLAGS : 9,
              deadlineSec: isExtending ? DEADLINE_SEC : 900,
              reads: 2,
              fetched: false,
              stale: false,
              won: false,
              stub: false,
              binary: isExtending && (marks & KEY_BINARY) !== 0,
            }, `mode ${mode}, ${way}, ${before} bytes, then ${length}, marks ${marks}`);
            assertEquals(store.id(KEY), id);
            if (way.startsWith("chosen")) assertEquals(id, CHOSEN_ID);
          }
        }
      }
    }
  }
});

Deno.test("marks of a new value are the same in one piece and in several", () => {
  for (const put of Object.values(WAYS)) {
    for (const length of LENGTHS) {
      for (const marks of MARKS) {
        using store = newStore();
        assertEquals(put(store, ADD, new Uint8Array(length), { marks }), Outcome.STORED);
        const { stale, won, stub, binary, reads, fetched } = stateOf(store);
        const has = (bit: number): boolean => (marks & bit) !== 0;
        assertEquals([stale, won, stub, binary], [
          has(STALE),
          has(WON),
          has(STUB),
          has(KEY_BINARY),
        ]);
        assertEquals([reads, fetched], [0, false]);
      }
    }
  }
});

Deno.test("an older id under I stores a stale value, and keeps deadline and winner", () => {
  for (const put of [WAYS["whole"]!, WAYS["pieces"]!]) {
    for (const marks of [0, WON]) {
      using store = storeWith(new Uint8Array(40), marks);
      const older = { compare: true, compareLow: 1, compareHigh: 0, allowOlder: true };
      const fields = { ...older, deadlineSec: 900 };
      assertEquals(put(store, CAS, new Uint8Array(40), fields), Outcome.STORED);
      const { stale, won, deadlineSec } = stateOf(store);
      assertEquals([stale, won, deadlineSec], [true, marks === WON, DEADLINE_SEC]);
      assertEquals(
        put(store, CAS, new Uint8Array(4), { ...fields, compareLow: 0 }),
        Outcome.EXISTS,
      );
    }
  }
});

Deno.test("arithmetic keeps the marks unless the number needs more room", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  for (const marks of MARKS) {
    for (
      const [value, delta, increment, after] of [
        ["10", 5, true, "15"],
        ["10", 5, false, "5 "],
        ["9", 1, true, "10"],
      ] as const
    ) {
      for (const fields of [{}, withChosenId]) {
        using store = storeWith(bytes(value), marks);
        assertEquals(store.add(KEY, delta, increment, fields), Outcome.OK);
        const keeps = after.length === value.length;
        const has = (bit: number): boolean => (marks & bit) !== 0;
        assertEquals({ ...stateOf(store), stub: false }, {
          length: after.length,
          flags: FLAGS,
          deadlineSec: DEADLINE_SEC,
          reads: 3,
          fetched: keeps,
          stale: keeps && has(STALE),
          won: keeps && has(WON),
          stub: false,
          binary: has(KEY_BINARY),
        }, `${value} to ${after}, marks ${marks}`);
        assertEquals(store.get(KEY), after);
      }
    }
  }
});

Deno.test("a value becomes stale in the same way with a chosen id and without", () => {
  for (const length of LENGTHS) {
    for (const marks of MARKS) {
      for (const touches of [false, true]) {
        const states = [{}, withChosenId].map((fields) => {
          using store = storeWith(new Uint8Array(length), marks);
          const operation = store.operationOn(KEY, { ...fields, deadlineSec: 800 });
          const outcome = held(store.cache, () => store.cache.meta.markStale(operation, touches));
          assertEquals(outcome, Outcome.OK);
          return stateOf(store);
        });
        assertEquals(states[0], {
          length,
          flags: FLAGS,
          deadlineSec: touches ? 800 : DEADLINE_SEC,
          reads: 2,
          fetched: true,
          stale: true,
          won: false,
          stub: (marks & STUB) !== 0,
          binary: (marks & KEY_BINARY) !== 0,
        });
        assertEquals(states[1], states[0]);
      }
    }
  }
});

Deno.test("an item that is emptied keeps its key's form, and its id unless it becomes stale", () => {
  for (const length of LENGTHS) {
    for (const marks of MARKS) {
      for (const stale of [false, true]) {
        for (const fields of [{}, withChosenId]) {
          using store = storeWith(new Uint8Array(length), marks, fields);
          const id = ofItem(store);
          const operation = store.operationOn(KEY, { clientFlags: 3, deadlineSec: 800 });
          const outcome = held(store.cache, () => store.cache.meta.empty(operation, stale));
          assertEquals(outcome, Outcome.OK);
          const deleted = store.cache.inspector.sumOfClasses("delete_hits");
          assertEquals(deleted, stale ? 0 : 1, "a stale value is no deletion");
          assertEquals(stateOf(store), {
            length: 0,
            flags: 3,
            deadlineSec: 800,
            reads: 2,
            fetched: false,
            stale,
            won: false,
            stub: false,
            binary: (marks & KEY_BINARY) !== 0,
          });
          const after = ofItem(store);
          assertEquals(after.compareLow === id.compareLow, !stale);
        }
      }
    }
  }
});

/** The ways to give a live item a deadline. */
const TOUCHES: Record<string, (store: TestStore, deadlineSec: number) => unknown> = {
  touch: (store, deadlineSec) => store.touch(KEY, deadlineSec),
  gat: (store, deadlineSec) => {
    const operation = store.operationOn(KEY, { deadlineSec });
    store.cache.prefetch.addHash(operation);
    store.cache.getAndTouch(operation);
  },
  lag: (store, deadlineSec) => store.lockAndGet(KEY, 1, { deadlineSec }),
  "mg T": (store, deadlineSec) =>
    store.cache.meta.touch(store.operationOn(KEY, {}), peek(store), deadlineSec),
  "md I T": (store, deadlineSec) =>
    store.cache.meta.markStale(store.operationOn(KEY, { deadlineSec }), true),
  "md x": (store, deadlineSec) =>
    store.cache.meta.empty(store.operationOn(KEY, { deadlineSec }), false),
  set: (store, deadlineSec) => store.store(SET, KEY, "v", { deadlineSec }),
  replace: (store, deadlineSec) => store.store(REPLACE, KEY, "v".repeat(500), { deadlineSec }),
  "set in pieces": (store, deadlineSec) =>
    store.storeInPieces(SET, KEY, new Uint8Array(60_000), 7000, { deadlineSec }),
};

Deno.test("nothing outlives the deadline of a dirty key, however it is touched", () => {
  const dirtySec = 62;
  for (const [way, touch] of Object.entries(TOUCHES)) {
    for (const [asked, given] of [[30, 30], [dirtySec, dirtySec], [90, dirtySec], [0, dirtySec]]) {
      using store = newStore();
      store.getss(KEY, 60);
      assertEquals(store.store(SET, KEY, "dirty", { deadlineSec: 10 }), Outcome.STORED);
      touch(store, asked!);
      assertEquals(stateOf(store).deadlineSec, given, `${way} ${asked}`);
    }
    using store = storeWith(new Uint8Array(3), 0);
    touch(store, 90);
    assertEquals(stateOf(store).deadlineSec, 90, way);
  }
});
