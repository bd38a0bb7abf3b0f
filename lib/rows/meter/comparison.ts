import { Buffer } from "node:buffer";
import { assert } from "../../../store/base/assert.ts";
import type { Found } from "../../databases/base/backend.ts";
import type { CachedRow } from "../../../store/row_cache.ts";

/** An answer of a cache: a row, or that there is none. */
export type Hit = CachedRow | "absent";

/** What a hit is beside the database, which was asked before and after it. */
export type Comparison =
  /** It is what the database had before it, after it, or at a moment in between. */
  | "same"
  /** The database had it no more when it was asked before the hit. */
  | "older"
  /** So, but its max-age allows that. */
  | "aging"
  /** The database has never had it until it was asked after the hit. */
  | "newer"
  /** The database has changed meanwhile in a way that allows no verdict. */
  | "unclear";

/** Results of views have this version, all of them; a row has it until its second write. */
const VIEW_VERSION = 1;
/** Clocks of a cache and of the database's reader count whole seconds. */
const CLOCK_SEC = 2;

/**
 * Compares a hit on a row or a view.
 *
 * @param before What the database had before the hit; of a view, twice in one snapshot.
 * @param after What it had after the hit.
 * @param nowUnixSec The time of `after`.
 */
export function compare(
  before: readonly Found[],
  hit: Hit,
  after: readonly Found[],
  nowUnixSec: number,
): Comparison {
  const [first, again = first] = before;
  const [last] = after;
  assert(first !== undefined && last !== undefined, "the database has answered");
  const cached = hit === "absent" ? 0 : hit.version;
  return Math.max(first.version, last.version, cached) > VIEW_VERSION
    ? compareVersions(first, hit, last)
    : compareBytes(first, again!, hit, last, nowUnixSec);
}

/** A row's version grows with each write of its key. */
function compareVersions(before: Found, hit: Hit, after: Found): Comparison {
  if (hit === "absent") {
    if (before.row === null || after.row === null) return "same";
    return before.version === after.version ? "older" : "unclear";
  }
  const truths = [before, after];
  // Clocks differ, and a row whose time is over is deleted with a version of its own.
  if (hit.expiresInSec !== 0 && truths.some(({ row }) => row === null)) return "unclear";
  if (hit.version < before.version) return "older";
  if (hit.version > after.version) return "newer";
  const equal = truths.filter(({ version }) => version === hit.version);
  return equal.length === 0 || equal.some((truth) => isRowOf(hit, truth)) ? "same" : "older";
}

/** @param again The result of `before` once more: a query may have another one each time. */
function compareBytes(
  before: Found,
  again: Found,
  hit: Hit,
  after: Found,
  nowUnixSec: number,
): Comparison {
  if (!areEqual(before, again) || (hit !== "absent" && hit.data === null)) return "unclear";
  if (isRowOf(hit, before) || isRowOf(hit, after)) return "same";
  if (!areEqual(before, after)) return "unclear";
  return hit !== "absent" && mayBeOld(hit, after, nowUnixSec) ? "aging" : "older";
}

/** Whether a result has a max-age, and no longer time left than one that is read now. */
function mayBeOld({ expiresInSec }: CachedRow, { row }: Found, nowUnixSec: number): boolean {
  if (expiresInSec === 0) return false;
  const { expiresUnixSec = 0 } = row ?? {};
  return expiresUnixSec === 0 || expiresInSec <= expiresUnixSec - nowUnixSec + CLOCK_SEC;
}

/** Whether a later hit may have the same version and bytes, although the first was deleted. */
export function mayReturn(hit: Hit): boolean {
  return hit === "absent" || hit.version <= VIEW_VERSION;
}

/** Whether two hits are the same answer. */
export function isSameHit(one: Hit, other: Hit): boolean {
  if (one === "absent" || other === "absent") return one === other;
  return one.version === other.version && one.flags === other.flags &&
    haveSameBytes(one.data, other.data);
}

function isRowOf(hit: Hit, { row }: Found): boolean {
  if (hit === "absent" || row === null) return hit === "absent" && row === null;
  return hit.flags === row.flags >>> 0 && haveSameBytes(hit.data, row.data);
}

function areEqual(one: Found, other: Found): boolean {
  if (one.row === null || other.row === null) return one.row === other.row;
  return one.row.flags === other.row.flags && haveSameBytes(one.row.data, other.row.data);
}

/** @param one Null: too long to be compared. */
function haveSameBytes(one: Uint8Array | null, other: Uint8Array | null): boolean {
  if (one === null || other === null) return true;
  return Buffer.compare(one, other) === 0;
}
