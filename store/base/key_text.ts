// Writes keys into lines of text. A key is a string of characters below 256, one for each byte.

/** Percent-encodes a key as memcached does for lines split at blanks: keeps letters, digits and -._~ only. */
export function percentEncoded(key: string): string {
  return key.replace(/[^A-Za-z0-9\-._~]/g, percent);
}

/** Percent-encodes a key for people to read: keeps all that is printable in ASCII, but blanks and percent signs. */
export function printable(key: string): string {
  return key.replace(/[^!-$&-~]/g, percent);
}

/** Returns the key that `printable` or `percentEncoded` has encoded; null: the text is none of their results. */
export function percentDecoded(text: string): string | null {
  if (!/^(?:[!-$&-~]|%[\dA-F]{2})*$/.test(text)) return null;
  return text.replace(/%(..)/g, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
}

/** Whether a key has no blank and no control character: a line can have it as it is. */
export function isWord(key: string): boolean {
  // deno-lint-ignore no-control-regex
  return !/[\x00-\x20\x7f]/.test(key);
}

/**
 * Encodes a key as one word of a line. Changes only blanks, control characters and percent signs,
 * which keys of binary requests and of base64 may contain.
 */
export function oneWord(key: string): string {
  // deno-lint-ignore no-control-regex
  return key.replace(/[\x00-\x20%\x7f]/g, percent);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
