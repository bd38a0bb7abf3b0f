import type { ByteRegion } from "./bytes.ts";

// Hot path: no allocation.

/** A set of keys, by their first bytes. */
export class Prefixes {
  readonly #prefixes: readonly Uint8Array[];

  /** @param prefixes The keys' first bytes, or text that has them in UTF-8. `""` covers every key. */
  constructor(prefixes: readonly (string | Uint8Array)[]) {
    const encoder = new TextEncoder();
    this.#prefixes = prefixes.map((each) => typeof each === "string" ? encoder.encode(each) : each);
  }

  covers(input: ByteRegion, keyOffset: number, keyLength: number): boolean {
    const prefixes = this.#prefixes;
    for (let index = 0; index < prefixes.length; index++) {
      if (startsWith(input.bytes, keyOffset, keyLength, prefixes[index]!)) return true;
    }
    return false;
  }
}

function startsWith(
  bytes: Uint8Array,
  offset: number,
  length: number,
  prefix: Uint8Array,
): boolean {
  if (prefix.length > length) return false;
  for (let at = 0; at < prefix.length; at++) if (bytes[offset + at] !== prefix[at]) return false;
  return true;
}
