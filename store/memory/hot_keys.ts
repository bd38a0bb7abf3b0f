import * as bytesModule from "../base/bytes.ts";
import type { KeyBytes } from "../base/bytes.ts";

const { latin1Text } = bytesModule;

/** One request of this many is sampled, on average. */
export const SAMPLE_EVERY = 1024;
/** Keys in a thread's list. A key with a larger share of the samples than 1 / ENTRIES is in it. */
const ENTRIES = 128;
/** At this number of samples, a thread halves its counts, so that the list follows a change of load. */
const SAMPLES_MAX = 8192;
const KEY_BYTES = 252;

/** Words of the whole table, then of a thread's list, then of an entry. */
const TABLE = { EPOCH: 0, WORDS: 16 } as const;
const LIST = { EPOCH: 0, SAMPLES: 1, USED: 2, WORDS: 16 } as const;
const ENTRY = {
  /** Odd while the entry changes. */
  VERSION: 0,
  HASH: 1,
  KEY_LENGTH: 2,
  /** Samples, and how many of them may be another key's. */
  COUNT: 3,
  ERROR: 4,
  /** By `KeyUse`. */
  USES: 5,
  KEY: 8,
  WORDS: 8 + KEY_BYTES / 4,
} as const;
const LIST_WORDS = LIST.WORDS + ENTRIES * ENTRY.WORDS;
const USES = 3;

/** The use that a sampled request made of its key. */
export const KeyUse = { HIT: 0, MISS: 1, WRITE: 2 } as const;
export type KeyUse = typeof KeyUse[keyof typeof KeyUse];

/** A hot key. Numbers count samples. */
export interface HotKey {
  /** Bytes as characters below 256. */
  readonly key: string;
  readonly count: number;
  /** How many of `count` may be another key's. */
  readonly error: number;
  readonly hits: number;
  readonly misses: number;
  readonly writes: number;
}

/** The hot keys of all threads, the hottest first. */
export interface HotKeyList {
  /** All samples. */
  readonly samples: number;
  readonly keys: readonly HotKey[];
}

/**
 * The keys that are asked for most: a sample of the requests, counted by a space-saving sketch (Metwally, Agrawal and
 * El Abbadi, 2005) of a fixed number of keys for each thread. A thread writes its own list without the mutex; readers
 * skip an entry that changes under them.
 */
export class HotKeys {
  /** Requests until the next sample. Callers decrement it, and call `sample` when it is 0. */
  left = SAMPLE_EVERY;
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;
  /** First word of this thread's list. */
  readonly #list: number;
  #random: number;

  constructor(shared: SharedArrayBuffer, threadIndex: number) {
    this.#words = new Int32Array(shared);
    this.#bytes = new Uint8Array(shared);
    this.#list = TABLE.WORDS + threadIndex * LIST_WORDS;
    this.#random = 0x2545f491 + threadIndex;
  }

  static createShared(threads: number): SharedArrayBuffer {
    return new SharedArrayBuffer((TABLE.WORDS + threads * LIST_WORDS) * 4);
  }

  /** Counts a request. */
  note(key: KeyBytes, use: KeyUse): void {
    if (--this.left === 0) this.sample(key, use);
  }

  /** Counts a sampled request, and chooses the next one. */
  sample(key: KeyBytes, use: KeyUse): void {
    this.left = this.#gap();
    this.#begin();
    const words = this.#words;
    const list = this.#list;
    const hash = hashOf(key);
    let at = this.#find(key, hash);
    if (at === 0) at = this.#replace(key, hash);
    words[at + ENTRY.COUNT]! += 1;
    words[at + ENTRY.USES + use]! += 1;
    words[list + LIST.SAMPLES]! += 1;
    if (words[list + LIST.SAMPLES]! >= SAMPLES_MAX) this.#halve();
  }

  /** Forgets the keys of all threads. The caller holds the mutex. */
  reset(): void {
    this.#words[TABLE.EPOCH]! += 1;
  }

  /** Reads the lists of all threads. */
  read(): HotKeyList {
    const words = this.#words;
    const found = new Map<string, HotKey>();
    let samples = 0;
    for (let list: number = TABLE.WORDS; list < words.length; list += LIST_WORDS) {
      if (words[list + LIST.EPOCH] !== words[TABLE.EPOCH]) continue;
      samples += words[list + LIST.SAMPLES]!;
      for (let index = 0; index < words[list + LIST.USED]!; index++) {
        const entry = this.#read(list + LIST.WORDS + index * ENTRY.WORDS);
        if (entry === null) continue;
        const other = found.get(entry.key);
        found.set(entry.key, other === undefined ? entry : sumOf(entry, other));
      }
    }
    return { samples, keys: [...found.values()].sort((a, b) => b.count - a.count) };
  }

  /** Returns a number of requests: `SAMPLE_EVERY` on average, so that no pattern of requests hides from the samples. */
  #gap(): number {
    let random = this.#random;
    random ^= random << 13;
    random ^= random >>> 17;
    random ^= random << 5;
    this.#random = random;
    return SAMPLE_EVERY / 2 + (random & (SAMPLE_EVERY - 1));
  }

  /** Empties the list after a reset. */
  #begin(): void {
    const words = this.#words;
    const list = this.#list;
    const epoch = words[TABLE.EPOCH]!;
    if (words[list + LIST.EPOCH] === epoch) return;
    words[list + LIST.USED] = 0;
    words[list + LIST.SAMPLES] = 0;
    words[list + LIST.EPOCH] = epoch;
  }

  /** Returns the first word of a key's entry; 0: none. */
  #find(key: KeyBytes, hash: number): number {
    const words = this.#words;
    const used = words[this.#list + LIST.USED]!;
    let at = this.#list + LIST.WORDS;
    for (let index = 0; index < used; index++, at += ENTRY.WORDS) {
      if (words[at + ENTRY.HASH] !== hash || words[at + ENTRY.KEY_LENGTH] !== key.keyLength) {
        continue;
      }
      if (this.#isKey(at, key)) return at;
    }
    return 0;
  }

  #isKey(at: number, { input: { bytes }, keyOffset, keyLength }: KeyBytes): boolean {
    const start = (at + ENTRY.KEY) * 4;
    for (let index = 0; index < keyLength; index++) {
      if (this.#bytes[start + index] !== bytes[keyOffset + index]) return false;
    }
    return true;
  }

  /** Gives the key a new entry, or that of the coldest key with its count. Returns its first word. */
  #replace({ input: { bytes }, keyOffset, keyLength }: KeyBytes, hash: number): number {
    const words = this.#words;
    const list = this.#list;
    const used = words[list + LIST.USED]!;
    let at = list + LIST.WORDS + used * ENTRY.WORDS;
    let count = 0;
    if (used === ENTRIES) {
      at = this.#coldest();
      count = words[at + ENTRY.COUNT]!;
    }
    words[at + ENTRY.VERSION]! |= 1;
    words[at + ENTRY.HASH] = hash;
    words[at + ENTRY.KEY_LENGTH] = keyLength;
    words[at + ENTRY.COUNT] = count;
    words[at + ENTRY.ERROR] = count;
    words.fill(0, at + ENTRY.USES, at + ENTRY.USES + USES);
    const start = (at + ENTRY.KEY) * 4;
    for (let index = 0; index < keyLength; index++) {
      this.#bytes[start + index] = bytes[keyOffset + index]!;
    }
    Atomics.add(words, at + ENTRY.VERSION, 1);
    if (used < ENTRIES) words[list + LIST.USED] = used + 1;
    return at;
  }

  #coldest(): number {
    const words = this.#words;
    const first = this.#list + LIST.WORDS;
    let coldest = first;
    for (let index = 1; index < ENTRIES; index++) {
      const at = first + index * ENTRY.WORDS;
      if (words[at + ENTRY.COUNT]! < words[coldest + ENTRY.COUNT]!) coldest = at;
    }
    return coldest;
  }

  #halve(): void {
    const words = this.#words;
    const list = this.#list;
    words[list + LIST.SAMPLES]! >>= 1;
    for (let index = 0; index < words[list + LIST.USED]!; index++) {
      const at = list + LIST.WORDS + index * ENTRY.WORDS;
      for (let word = at + ENTRY.COUNT; word < at + ENTRY.USES + USES; word++) words[word]! >>= 1;
    }
  }

  /** Returns an entry; null: it is being replaced. */
  #read(at: number): HotKey | null {
    const words = this.#words;
    const version = Atomics.load(words, at + ENTRY.VERSION);
    if ((version & 1) !== 0) return null;
    const start = (at + ENTRY.KEY) * 4;
    const keyLength = Math.min(words[at + ENTRY.KEY_LENGTH]!, KEY_BYTES);
    const entry = {
      key: latin1Text(this.#bytes, start, keyLength),
      count: words[at + ENTRY.COUNT]!,
      error: words[at + ENTRY.ERROR]!,
      hits: words[at + ENTRY.USES + KeyUse.HIT]!,
      misses: words[at + ENTRY.USES + KeyUse.MISS]!,
      writes: words[at + ENTRY.USES + KeyUse.WRITE]!,
    };
    return Atomics.load(words, at + ENTRY.VERSION) === version ? entry : null;
  }
}

function sumOf(a: HotKey, b: HotKey): HotKey {
  return {
    key: a.key,
    count: a.count + b.count,
    error: a.error + b.error,
    hits: a.hits + b.hits,
    misses: a.misses + b.misses,
    writes: a.writes + b.writes,
  };
}

/** FNV-1a. Only the threads' own lists are searched by it, entry by entry: collisions cost little. */
function hashOf({ input: { bytes }, keyOffset, keyLength }: KeyBytes): number {
  let hash = 0x811c9dc5 | 0;
  for (let at = keyOffset; at < keyOffset + keyLength; at++) {
    hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  }
  return hash;
}
