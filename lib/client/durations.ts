import { checkNumber, shown } from "./checks.ts";

/**
 * A time: a number in the unit that its option's name ends with, or a text with a unit, as "500ms", "30s", "10m", "2h"
 * or "7d". Options in seconds take whole ones only.
 */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

/** Longest time to live, in seconds: 68 years. */
export const TTL_SEC_MAX = 0x7fff_ffff;
/** Longer times are absolute for servers: seconds since 1970. */
const RELATIVE_SEC_MAX = 30 * 86_400;
/** The last time that servers know, in January 2038. */
const ABSOLUTE_SEC_MAX = 0x7fff_ffff;
const MS_OF_UNIT = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const TEXT = /^(\d{1,15})(ms|s|m|h|d)$/;

/** Returns whole seconds. @param max The longest, in seconds. @throws RangeError, TypeError */
export function secOf(name: string, duration: Duration, min: number, max: number): number {
  return countOf(name, duration, { min, max, unit: "s" });
}

/** Returns whole milliseconds. @param max The longest, in ms. @throws RangeError, TypeError */
export function msOf(name: string, duration: Duration, min: number, max: number): number {
  return countOf(name, duration, { min, max, unit: "ms" });
}

/**
 * Returns a time to live as the protocol has it: one that would end after January 2038 ends there.
 *
 * @param ttl Whole seconds; 0: for ever.
 * @throws RangeError, TypeError: it is negative, not whole, or longer than 68 years.
 */
export function expiryOf(ttl: Duration, name = "ttlSec"): number {
  const sec = secOf(name, ttl, 0, TTL_SEC_MAX);
  if (sec <= RELATIVE_SEC_MAX) return sec;
  return Math.min(Math.floor(Date.now() / 1000) + sec, ABSOLUTE_SEC_MAX);
}

function countOf(
  name: string,
  duration: Duration,
  { min, max, unit }: { readonly min: number; readonly max: number; readonly unit: "s" | "ms" },
): number {
  if (typeof duration !== "string") {
    checkNumber(name, duration, min, max);
    return duration;
  }
  const [, digits, own] = TEXT.exec(duration) ?? [];
  const count = own === undefined
    ? NaN
    : Number(digits) * MS_OF_UNIT[own as "s"] / MS_OF_UNIT[unit];
  if (Number.isSafeInteger(count) && count >= min && count <= max) return count;
  throw new RangeError(
    `${name} ${shown(duration)}: expected a whole number from ${min} to ${max}, ` +
      `or a time as "30s", "10m", "2h" or "1d" of ${min} to ${max} ${unit}`,
  );
}
