import type { Memory } from "./memory.ts";
import * as memoryModule from "./memory.ts";

const { CONTROL } = memoryModule;

/** Ids stay below 2^53, because JavaScript and some PHP clients keep numbers as doubles. */
const TWO_53 = 2 ** 53;
/** Record changes per millisecond that a clock-based start leaves room for. */
const IDS_PER_MS = 1024;
/** A wall clock before this instant (2024-01-01) is wrong. */
const CLOCK_PLAUSIBLE_MS = 1704067200000;

/**
 * Returns the first id of a process: larger than any id of an earlier process on this machine, so that an id read from
 * that one never matches a new record.
 *
 * @param unixMs The wall clock, in milliseconds.
 * @param random In 0..1, used if the clock is wrong.
 */
export function firstIdAt(unixMs: number, random: number): number {
  if (unixMs > CLOCK_PLAUSIBLE_MS) return Math.min(unixMs * IDS_PER_MS, TWO_53 / 2);
  return 2 ** 40 + Math.floor(random * (2 ** 52 - 2 ** 40));
}

/** Takes the next id: strictly growing, never repeated. Read it as `control[ID_LOW]`, `control[ID_HIGH]`. */
export function takeId(memory: Memory): void {
  const control = memory.control;
  const low = (control[CONTROL.ID_LOW]! + 1) | 0;
  control[CONTROL.ID_LOW] = low;
  if (low === 0) control[CONTROL.ID_HIGH]! += 1;
}
