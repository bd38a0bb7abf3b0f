import { SPACE } from "../../store/base/bytes.ts";
import type { Credentials } from "./password_checks.ts";

// memcached's authentication by text (authfile.c, proto_text.c of 1.6.45): a line `set <any> <any> <any> <bytes>`, then
// the data block `<user> <password>`.

/** A longer data block closes the connection. In bytes. */
export const LOGIN_BLOCK_LENGTH_MAX = 16_384;

const LINE = /^set +[^ ]+ +[^ ]+ +[^ ]+ +(\d{1,10})(?: .*)?$/s;
const UINT32_MAX = 2 ** 32 - 1;

/**
 * Returns the length of the data block that the line announces, in bytes, or null if the line is no authentication.
 *
 * @param line One character a byte, without CR LF.
 */
export function loginBlockLength(line: string): number | null {
  const length = Number(LINE.exec(line)?.[1] ?? NaN);
  return length <= UINT32_MAX ? length : null;
}

/** Reads a copy of the data block, without its CR LF. Returns null if it has no blank. */
export function readLogin(block: Uint8Array): Credentials | null {
  const space = block.indexOf(SPACE);
  if (space < 0) return null;
  return { user: block.subarray(0, space), password: block.subarray(space + 1) };
}
