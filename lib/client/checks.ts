import { Buffer } from "node:buffer";

const KEY_BYTES_MAX = 250;
/** Longer times are absolute for servers: seconds since 1970. */
const RELATIVE_SEC_MAX = 30 * 86_400;
const TTL_SEC_MAX = 0x7fff_ffff;
const PLAIN_KEY = /^[\x21-\x7e]{1,250}$/;
// deno-lint-ignore no-control-regex
const FORBIDDEN = /[\x00-\x20\x7f]/;

/**
 * Returns a key's bytes in UTF-8, one character a byte.
 *
 * @throws RangeError The key is empty, longer than 250 bytes, or has blanks or control characters.
 */
export function keyBytes(key: string): string {
  if (PLAIN_KEY.test(key)) return key;
  const bytes = Buffer.from(key).toString("latin1");
  const problem = bytes.length === 0
    ? "it is empty"
    : bytes.length > KEY_BYTES_MAX
    ? `it has ${bytes.length} bytes, ${KEY_BYTES_MAX} are allowed`
    : FORBIDDEN.test(bytes)
    ? "blanks and control characters are not allowed"
    : undefined;
  if (problem !== undefined) throw new RangeError(`key ${JSON.stringify(key)}: ${problem}`);
  return bytes;
}

/**
 * Returns a time to live as the protocol has it.
 *
 * @param sec Whole seconds; 0: for ever.
 * @throws RangeError It is negative, not whole, or longer than 68 years.
 */
export function expiryOf(sec: number): number {
  checkNumber("ttlSec", sec, 0, TTL_SEC_MAX);
  return sec <= RELATIVE_SEC_MAX ? sec : Math.floor(Date.now() / 1000) + sec;
}

/** @throws RangeError It is no whole number in this range. */
export function checkNumber(name: string, value: number, min: number, max: number): void {
  if (!(Number.isSafeInteger(value) && value >= min && value <= max)) {
    throw new RangeError(`${name} ${value}: expected a whole number from ${min} to ${max}`);
  }
}
