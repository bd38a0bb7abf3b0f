import type { View } from "../views/view.ts";
import { type Found, hasExpired, type WriteResult } from "./backend.ts";

/** Views have no versions: they cannot be written. */
const VIEW_VERSION = 1;
/** Shortest text of a row in an array, with its comma: `{"":0},`. */
const ROW_BYTES_MIN = 7;

export const POSTPONED: WriteResult = { kind: "postponed" };

/** A row as the table has it. */
export interface StoredRow {
  readonly flags: number | null;
  /** Null: it was deleted. */
  readonly data: Uint8Array | null;
  /** Null: there is no such row. */
  readonly version: number | null;
  /** In Unix seconds; null or 0: never. */
  readonly expires: number | null;
}

/** Returns the result of a read of the table. */
export function foundOf(
  { flags, data, version, expires }: StoredRow,
  epoch: number,
  nowUnixMs: number,
): Found {
  if (version === null) return { row: null, version: 0, epoch };
  if (data === null || hasExpired(expires ?? 0, nowUnixMs)) return { row: null, version, epoch };
  const row = { flags: flags ?? 0, data, version };
  if (expires === null || expires === 0) return { row, version, epoch };
  return { row: { ...row, expiresUnixSec: expires }, version, epoch };
}

/** Returns the result of a view's query. @param data Null: it has none. */
export function resultOf(
  data: Uint8Array | null,
  { maxAgeSec }: View,
  epoch: number,
  nowUnixMs: number,
): Found {
  // The absence of a key ends with no age, so one with an age is not kept.
  if (data === null) return { row: null, version: 0, epoch, isKept: maxAgeSec === 0 };
  const row = { flags: 0, data, version: VIEW_VERSION };
  if (maxAgeSec === 0) return { row, version: VIEW_VERSION, epoch };
  const expiresUnixSec = Math.floor(nowUnixMs / 1000) + maxAgeSec;
  return { row: { ...row, expiresUnixSec }, version: VIEW_VERSION, epoch };
}

/** Returns the result of a view that cannot be read. @param reason Without the view's name. */
export function problemOf(view: View, reason: string, epoch: number): Found {
  return { row: null, version: 0, epoch, isKept: false, problem: `view ${view.name}: ${reason}` };
}

/** Returns why a result is not used. @param bytesMax Most bytes of a value. */
export function tooLarge(bytesMax: number): string {
  return `its result is too large: more than ${bytesMax} bytes (-I)`;
}

/** Returns the most rows of an array that has no more bytes. */
export function rowsMax(bytesMax: number): number {
  return Math.floor(bytesMax / ROW_BYTES_MIN);
}
