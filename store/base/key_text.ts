// How keys are written into lines of text. They come as characters below 256, one for each byte.

/** As memcached writes keys into lines that are split at blanks: only letters, digits and -._~ stay. */
export function percentEncoded(key: string): string {
  return key.replace(/[^A-Za-z0-9\-._~]/g, percent);
}

/**
 * A key as one word of a line, most characters as they are: only keys of binary requests and of
 * base64 are changed by it.
 */
export function oneWord(key: string): string {
  // deno-lint-ignore no-control-regex
  return key.replace(/[\x00-\x20%\x7f]/g, percent);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
