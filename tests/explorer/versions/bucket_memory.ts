// A small store of words, as a reader without the mutex sees it: one access, one step.
//
// The writer's steps are stores in their order, and the reader's are loads in theirs. That is what x86-64 shows of one
// thread that stores and others that only load: a store may become visible late, which is another interleaving, and the
// writer's reply follows a locked instruction, which lets nothing pass.

/** Words in front of the chunks. */
export const AT = {
  /** Two versions: of the buckets with even numbers, and of those with odd ones. A third for a planted fault. */
  VERSION: 0,
  /** The power of two at or below BUCKETS. */
  LEVEL: 3,
  BUCKETS: 4,
  /** Items with an id below this are dead. */
  FLUSH: 5,
  /** Heads of four buckets; two of them exist at first. */
  HEAD: 6,
  CHUNKS: 10,
} as const;

/** Words of a chunk. */
export const CHUNK = { KEY: 0, NEXT: 1, LENGTH: 2, ID: 3, VALUE: 4, WORDS: 7 } as const;
const CHUNKS = 4;
/** The longest value, in words. */
export const VALUE_WORDS_MAX = CHUNK.WORDS - CHUNK.VALUE;

/** Keys, by their hashes. Those of A and B share a bucket until it is split; C has the other one. */
export const Key = { A: 4, B: 2, C: 1 } as const;
export type Key = typeof Key[keyof typeof Key];

/** No chunk. */
export const NONE = 0;
/** The words that other uses of memory leave in it: no key, and no reference or length that makes sense. */
export const GARBAGE = 99;

/** A value: its words, as text. "": the key is missing. */
export type Value = string;

/** One store of the writer, or what is known from then on. */
export type Store = { readonly at: number; readonly word: number } | Note;

/** The writer's notes beside its stores. */
export interface Note {
  /** From now on a read may find this value, too. */
  readonly begins?: readonly [Key, Value];
  /** From now on a read that begins finds this value only. */
  readonly ends?: readonly [Key, Value];
  readonly text: string;
}

export function chunk(index: number): number {
  return AT.CHUNKS + index * CHUNK.WORDS;
}

/** The keys' values at first. */
export const INITIAL: readonly (readonly [Key, Value])[] = [
  [Key.A, "11 11"],
  [Key.B, "21 21"],
  [Key.C, ""],
];

/** A store with A and B in one bucket, B first, and room for two items more. */
export function newMemory(): number[] {
  const words: number[] = new Array(chunk(CHUNKS)).fill(0);
  words[AT.LEVEL] = 2;
  words[AT.BUCKETS] = 2;
  words[AT.HEAD] = chunk(0);
  const [[a, aValue], [b, bValue]] = INITIAL as [[Key, Value], [Key, Value]];
  const items = [...fill(chunk(0), b, chunk(1), bValue, 1), ...fill(chunk(1), a, NONE, aValue, 1)];
  for (const { at, word } of items) words[at] = word;
  return words;
}

interface Word {
  readonly at: number;
  readonly word: number;
}

/** The stores that fill a chunk. */
export function fill(at: number, key: Key, next: number, value: Value, id: number): Word[] {
  const words = value.split(" ").map(Number);
  return [
    { at: at + CHUNK.KEY, word: key },
    { at: at + CHUNK.NEXT, word: next },
    { at: at + CHUNK.LENGTH, word: words.length },
    { at: at + CHUNK.ID, word: id },
    ...words.map((word, index) => ({ at: at + CHUNK.VALUE + index, word })),
  ];
}
