/** A position in PostgreSQL's log, two hexadecimal numbers; or a whole number. */
const LSN = /^([0-9a-f]{1,8})\/([0-9a-f]{1,8})$/i;
const NUMBER = /^\d{1,19}$/;

/** With this an origin without --follow answers `follow wait`. */
export const NO_LOG = "the server does not follow the log: no --follow";

/** Reads a position of `follow wait`. @returns Null if it is none. */
export function positionOf(word: string): bigint | null {
  const [, high, low] = LSN.exec(word) ?? [];
  if (high !== undefined) return BigInt(`0x${high}`) << 32n | BigInt(`0x${low}`);
  return NUMBER.test(word) ? BigInt(word) : null;
}
