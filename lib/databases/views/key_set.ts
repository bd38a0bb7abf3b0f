/** Keys, and prefixes that stand for all of their keys. A character is a byte. */
export interface KeySet {
  readonly keys: readonly string[];
  readonly prefixes: readonly string[];
}

/** A key, or a prefix that stands for all of its keys. */
export interface KeyRange {
  readonly text: string;
  readonly isPrefix: boolean;
}

/** The keys of all rows. */
export const EVERY_ROW: KeySet = { keys: [], prefixes: [""] };

/** Collects keys and prefixes. */
export function keySetOf(ranges: Iterable<KeyRange>): KeySet {
  const keys: string[] = [];
  const prefixes: string[] = [];
  for (const { text, isPrefix } of ranges) (isPrefix ? prefixes : keys).push(text);
  return { keys, prefixes };
}

/** Whether all rows are meant. */
export function hasEveryRow({ prefixes }: KeySet): boolean {
  return prefixes.includes("");
}

/** Returns the prefixes of all keys that have one of the `own` prefixes and one of the `others`. */
export function commonPrefixes(own: readonly string[], others: readonly string[]): string[] {
  return others.flatMap((other) =>
    own.some((prefix) => other.startsWith(prefix))
      ? [other]
      : own.filter((prefix) => prefix.startsWith(other))
  );
}
