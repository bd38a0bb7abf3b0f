import { AT, CHUNK, type Key, NONE, type Value, VALUE_WORDS_MAX } from "./bucket_memory.ts";

/** A step of a reader: the word that it loads. */
export type Load = Generator<number, Value | undefined, number>;

/** Faults of a reader. */
export interface ReaderFaults {
  /** Accepts what it has read without a look at the version. */
  readonly trusts?: boolean;
  /** Looks at the version before it copies the value, and not after. */
  readonly checksBeforeCopy?: boolean;
  /** Begins although the version is odd. */
  readonly takesOdd?: boolean;
  /** Follows references and copies lengths without a bound. */
  readonly isUnbounded?: boolean;
  /** Takes the last flush once for several requests: before this one begins. */
  readonly flushIsOld?: boolean;
  /** Groups are those of the buckets that there are. */
  readonly byBucket?: boolean;
}

/** Attempts before the mutex is taken. */
const ATTEMPTS_MAX = 2;
/** Items of a bucket that are looked at. */
const STEPS_MAX = 4;

/**
 * Reads a key without the mutex, as store/items/optimistic_read.ts does.
 *
 * @param end The first word behind the memory.
 * @returns The value; "" for a miss; undefined: the mutex is needed.
 */
export function* readKey(key: Key, end: number, faults: ReaderFaults): Load {
  const old = faults.flushIsOld === true ? yield AT.FLUSH : 0;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    let group: number = key & 1;
    if (faults.byBucket === true) group = yield* bucketOf(key);
    const before = yield AT.VERSION + group;
    if (before % 2 !== 0 && faults.takesOdd !== true) continue;
    const item = yield* find(key, end, faults);
    if (item === undefined) continue;
    const length = item === NONE ? 0 : yield item + CHUNK.LENGTH;
    const id = item === NONE ? 0 : yield item + CHUNK.ID;
    const flush = faults.flushIsOld === true ? old : yield AT.FLUSH;
    // From here on the place and the length are known to be an item's.
    if (faults.trusts !== true && (yield AT.VERSION + group) !== before) continue;
    if (item === NONE) return "";
    if (id < flush || (length > VALUE_WORDS_MAX && faults.isUnbounded !== true)) return undefined;
    const words: number[] = [];
    for (let index = 0; index < length; index++) words.push(yield item + CHUNK.VALUE + index);
    const isSure = faults.trusts === true || faults.checksBeforeCopy === true;
    if (isSure || (yield AT.VERSION + group) === before) return words.join(" ");
  }
  return undefined;
}

function* bucketOf(key: Key): Generator<number, number, number> {
  const level = yield AT.LEVEL;
  const buckets = yield AT.BUCKETS;
  const bucket = key & (2 * level - 1);
  return bucket < buckets ? bucket : bucket & (level - 1);
}

/** @returns The item, NONE for a miss, or undefined when the words made no sense. */
function* find(
  key: Key,
  end: number,
  faults: ReaderFaults,
): Generator<number, number | undefined, number> {
  let item = yield AT.HEAD + (yield* bucketOf(key));
  for (let step = 0; item !== NONE; step++) {
    if (step === STEPS_MAX || (item + CHUNK.WORDS > end && faults.isUnbounded !== true)) {
      return undefined;
    }
    if ((yield item + CHUNK.KEY) === key) return item;
    item = yield item + CHUNK.NEXT;
  }
  return NONE;
}
