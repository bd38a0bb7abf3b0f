import { CLASSES_MAX, pageShiftOf } from "../memory/memory.ts";
import { HEADER_BYTES } from "../memory/item.ts";
import { MEMORY_LIMIT_MIB_MAX, MIB } from "../limits.ts";
import { RUN_CHUNKS_MAX } from "../memory/chunk_runs.ts";
import { KEPT_WORDS, LAYOUT_VERSION, type SnapshotHeader } from "./snapshot_header.ts";

// Whether the description of a saved store can be true. The file may be damaged, or made by somebody.

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;
/** The store counts seconds in 31 bits: the clock has room for as much again. */
export const CLOCK_MS_MAX = 2 ** 30 * 1000;
/** Below the largest whole number by more than a process can hand out. */
const ID_MAX = 2 ** 52;

type Check = (value: unknown) => boolean;

const whole = (min: number, max: number): Check => (value) =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;

/** A field that cannot be true; its name and its value, for a message. */
function faultOf(name: string, value: unknown, check: Check): string | null {
  return check(value) ? null : `${name} is ${String(JSON.stringify(value)).slice(0, 40)}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns what is wrong with a description of a store, or null. Another version's layout is not looked at. */
export function headerFault(header: unknown): string | null {
  if (!isObject(header) || !isObject(header["layout"])) return "it describes no store";
  const { version } = header["layout"];
  if (version !== LAYOUT_VERSION) {
    return Number.isSafeInteger(version) ? null : "its layout has no version";
  }
  const layout = header["layout"];
  return layoutFault(layout) ?? numbersFault(header, layout as unknown as SnapshotHeader["layout"]);
}

function layoutFault(layout: Record<string, unknown>): string | null {
  const isLayout: Check = (value) => value === "leased" || value === "memcached";
  const slabLayout = layout["slabLayout"];
  return faultOf("its slabLayout", slabLayout, isLayout) ??
    faultOf(
      "its pageShift",
      layout["pageShift"],
      (shift) => shift === pageShiftOf(slabLayout as SnapshotHeader["layout"]["slabLayout"]),
    ) ??
    faultOf("its casEnabled", layout["casEnabled"], (value) => typeof value === "boolean") ??
    faultOf("its chunkBytes", layout["chunkBytes"], (sizes) => areChunkSizes(sizes, layout));
}

/** Chunk sizes grow from class to class, but for those of chains, and some fit a page. */
function areChunkSizes(
  sizes: unknown,
  { pageShift, slabLayout }: Record<string, unknown>,
): boolean {
  if (!Array.isArray(sizes) || sizes.length < 2 || sizes.length >= CLASSES_MAX) return false;
  const pageBytes = 1 << (pageShift as number);
  const ordinary = slabLayout === "memcached" ? sizes : sizes.slice(0, -1);
  const isSize = (size: unknown): boolean =>
    whole(HEADER_BYTES + 8, pageBytes)(size) && (size as number) % 8 === 0;
  return sizes.every(isSize) && pageBytes / sizes.at(-1) <= RUN_CHUNKS_MAX &&
    ordinary.every((size, index) => index === 0 || size > ordinary[index - 1]);
}

function numbersFault(
  header: Record<string, unknown>,
  { pageShift, chunkBytes }: SnapshotHeader["layout"],
): string | null {
  const control = header["control"];
  if (!isObject(control)) return "it has no words of the store";
  const pagesMax = MEMORY_LIMIT_MIB_MAX * MIB / 2 ** pageShift;
  const seed = header["hashSeed"];
  const isSeed = Array.isArray(seed) && seed.length === 2 &&
    seed.every(whole(INT32_MIN, INT32_MAX));
  if (!isSeed) return "its hash seed is damaged";
  const pages = whole(0, pagesMax);
  const fault = faultOf("its last id", header["lastId"], whole(0, ID_MAX)) ??
    faultOf("its clock", header["clockMs"], whole(0, CLOCK_MS_MAX)) ??
    faultOf("its number of pages in use", header["pagesInUse"], pages) ??
    faultOf("its PAGES_EVER_USED", control["PAGES_EVER_USED"], pages);
  if (fault !== null) return fault;
  const page = whole(0, control["PAGES_EVER_USED"] as number);
  const pageOrNone = whole(-1, (control["PAGES_EVER_USED"] as number) - 1);
  const bucketsMax = (control["HASH_PAGES"] as number) * 2 ** (pageShift - 2);
  const ranges: Partial<Record<typeof KEPT_WORDS[number], Check>> = {
    FLUSH_AT_SEC: whole(0, INT32_MAX),
    OLDEST_LIVE_SEC: whole(0, INT32_MAX),
    HASH_PAGES: whole(1, control["PAGES_EVER_USED"] as number),
    HASH_BUCKETS: whole(1, bucketsMax),
    // The largest power of two that is not above the number of buckets.
    HASH_LEVEL: (level) => level === 2 ** Math.floor(Math.log2(control["HASH_BUCKETS"] as number)),
    FREE_PAGE: pageOrNone,
    GHOST_FIRST_PAGE: pageOrNone,
    GHOST_SETS: whole(0, INT32_MAX),
    ITEM_COUNT: whole(0, INT32_MAX),
    RANDOM: (value) => value !== 0 && whole(INT32_MIN, INT32_MAX)(value),
    MOVE_PAGE: pageOrNone,
    MOVE_TO: whole(-2, chunkBytes.length),
    MOVE_CHUNK: whole(0, 2 ** pageShift / chunkBytes[0]!),
    SWEEP_PAGE: page,
    SWEEP_CHUNK: whole(0, 2 ** pageShift / chunkBytes[0]!),
  };
  for (const name of KEPT_WORDS) {
    const check = ranges[name] ?? whole(INT32_MIN, INT32_MAX);
    const fault = faultOf(`its ${name}`, control[name], check);
    if (fault !== null) return fault;
  }
  return null;
}
