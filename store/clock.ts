import * as limitsModule from "./limits.ts";
import type { Memory } from "./memory/memory.ts";
import * as memoryModule from "./memory/memory.ts";

const { FIRST_SECOND } = limitsModule;
const { CONTROL } = memoryModule;

/** A deadline in the past, at any time. */
export const PAST_SEC = 1;
const INSTANT_MAX_SEC = 2 ** 31 - 1;
/** Expiry times above this are Unix times (memcached doc/protocol.txt, "Expiration times"). */
const RELATIVE_SECONDS_MAX = 60 * 60 * 24 * 30;
/** How far tests may move the clock. */
const SHIFT_SEC_MAX = 365 * 24 * 3600;

/**
 * Moves the store's clock. The store reads no clock of its own: the process calls this on a tick, tests by hand.
 *
 * @param milliseconds Since the store was made, on a monotonic clock.
 */
export function writeClock({ control }: Memory, milliseconds: number): void {
  if (control[CONTROL.CLOCK_STOPPED] !== 0) return;
  const shifted = milliseconds + control[CONTROL.CLOCK_SHIFT_SEC]! * 1000;
  control[CONTROL.NOW_MS] = shifted | 0;
  control[CONTROL.NOW_MILLI] = Math.floor(milliseconds) % 1000;
  control[CONTROL.NOW_SEC] = FIRST_SECOND + Math.floor(shifted / 1000);
}

/**
 * Moves the clock by seconds, for tests: items expire earlier or later by them.
 *
 * @returns Whether it is at most a year away from its own time then; otherwise it stays as it is.
 */
export function shiftClock({ control }: Memory, seconds: number): boolean {
  const shiftSec = control[CONTROL.CLOCK_SHIFT_SEC]! + seconds;
  if (Math.abs(shiftSec) > SHIFT_SEC_MAX) return false;
  control[CONTROL.CLOCK_SHIFT_SEC] = shiftSec;
  control[CONTROL.NOW_SEC]! += seconds;
  return true;
}

/** Stops the clock, or starts it again at the time that it would have by then; for tests. */
export function stopClock({ control }: Memory, isStopped: boolean): void {
  control[CONTROL.CLOCK_STOPPED] = isStopped ? 1 : 0;
}

/** The store's clock, in milliseconds: an int32 that wraps. It moves with the ticks of the process. */
export function clockMs(memory: Memory): number {
  return memory.control[CONTROL.NOW_MS]!;
}

/** The store's clock, in seconds. */
export function clockSec(memory: Memory): number {
  return memory.control[CONTROL.NOW_SEC]!;
}

/**
 * Converts an expiry time to a deadline in seconds of the store's clock.
 *
 * @param exptime As a client sends it, below 2^32: 0 never, up to 30 days from now, above that Unix time.
 * @returns 0 for never; PAST_SEC if it has passed.
 */
export function deadlineSec(memory: Memory, exptime: number): number {
  if (exptime === 0) return 0;
  if (exptime < 0) return PAST_SEC;
  if (exptime <= RELATIVE_SECONDS_MAX) return memory.control[CONTROL.NOW_SEC]! + exptime;
  const instant = exptime - memory.control[CONTROL.STARTED_UNIX_SEC]!;
  return Math.min(Math.max(instant, PAST_SEC), INSTANT_MAX_SEC);
}
