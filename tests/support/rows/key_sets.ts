import { type KeyRange, type KeySet, keySetOf } from "../../../lib/databases/views/key_set.ts";

/** @param text A key, or a prefix and `*`. */
export function rangeOf(text: string): KeyRange {
  const isPrefix = text.endsWith("*");
  return { text: isPrefix ? text.slice(0, -1) : text, isPrefix };
}

/** @param texts Keys, and prefixes with `*`. */
export function keySet(...texts: readonly string[]): KeySet {
  return keySetOf(texts.map(rangeOf));
}

/** @returns Prefixes with `*`, then keys. */
export function shownKeys({ keys, prefixes }: KeySet): string[] {
  return [...prefixes.map((prefix) => `${prefix}*`), ...keys];
}
