/** Stands before a prefix where keys are named: all keys that begin with it. No character of a key is so large. */
const PREFIX_MARK = "\u{100}";

/** Returns what stands for all keys with a prefix, wherever keys are deleted. */
export function everyKeyOf(prefix: string): string {
  return PREFIX_MARK + prefix;
}

/** Stands for the keys of all rows. */
export const EVERY_ROW = everyKeyOf("");

/** Returns the prefix for whose keys a text stands; null: it is a key. */
export function prefixIn(key: string): string | null {
  return key.startsWith(PREFIX_MARK) ? key.slice(PREFIX_MARK.length) : null;
}

/** Keys, and prefixes for all of their keys. */
export interface KeysAndPrefixes {
  readonly keys: readonly string[];
  readonly prefixes: readonly string[];
}

/** Tells keys from what stands for prefixes. */
export function splitKeys(texts: readonly string[]): KeysAndPrefixes {
  const keys: string[] = [];
  const prefixes: string[] = [];
  for (const text of texts) {
    const prefix = prefixIn(text);
    if (prefix === null) keys.push(text);
    else prefixes.push(prefix);
  }
  return { keys, prefixes };
}

/** Returns the prefixes of all keys that have one of the `own` prefixes and one of the `others`. */
export function commonPrefixes(own: readonly string[], others: readonly string[]): string[] {
  return others.flatMap((other) =>
    own.some((prefix) => other.startsWith(prefix))
      ? [other]
      : own.filter((prefix) => prefix.startsWith(other))
  );
}
