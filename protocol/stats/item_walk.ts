import { percentEncoded } from "../../store/base/key_text.ts";
import { u64ToBigInt } from "../../store/base/u64.ts";
import type { ItemRef } from "../../store/cache.ts";
import type { StatThread } from "../thread_context.ts";
import { WORK } from "../work_budget.ts";
import type { StatEntry } from "./entry.ts";

// Dumps of items. The store's walks yield from time to time; the lines of a slice are sent then.

const SIZE_STEP_BYTES = 32;
/** memcached's bound of what cachedump answers. */
const CACHEDUMP_BYTES_MAX = 2 * 1024 * 1024;

type ItemLine = (thread: StatThread, item: ItemRef, classId: number) => string;

/** An instant of the store's clock as Unix time. */
function unixSec({ cache }: StatThread, instantSec: number): number {
  return cache.inspector.control("STARTED_UNIX_SEC") + instantSec;
}

function metadumpLine(thread: StatThread, item: ItemRef, classId: number): string {
  const { cache } = thread;
  const { inspector } = cache;
  const deadline = cache.deadlineSec(item);
  const expires = deadline === 0 ? -1 : unixSec(thread, deadline);
  const accessed = unixSec(thread, inspector.accessedSec(item));
  const id = u64ToBigInt(cache.idLow(item), cache.idHigh(item));
  const fetched = inspector.wasFetched(item) ? "yes" : "no";
  return `key=${percentEncoded(inspector.key(item))} exp=${expires} la=${accessed} cas=${id} ` +
    `fetch=${fetched} cls=${classId} size=${inspector.bytes(item)} flags=${
      cache.clientFlags(item)
    } \n`;
}

/** A request for the item. A key that came in base64, or is no word, stands in it in base64. */
function mgdumpLine({ cache: { inspector } }: StatThread, item: ItemRef): string {
  const key = inspector.key(item);
  return inspector.isKeyBinary(item) || !inspector.isKeyOneWord(item)
    ? `mg ${btoa(key)} b\r\n`
    : `mg ${key}\r\n`;
}

function cachedumpLine(thread: StatThread, item: ItemRef): string {
  const { cache } = thread;
  const deadline = cache.deadlineSec(item);
  const expires = deadline === 0 ? 0 : unixSec(thread, deadline);
  return `ITEM ${cache.inspector.key(item)} [${cache.valueLength(item)} b; ${expires} s]\r\n`;
}

/** A line for every item of some classes. */
function* itemLines(
  thread: StatThread,
  classes: ReadonlySet<number> | null,
  line: ItemLine,
): Generator<string> {
  let lines = "";
  const slices = thread.cache.inspector.walkItems(classes, (item, classId) => {
    lines += line(thread, item, classId);
  });
  for (const _ of slices) {
    thread.work.spent += WORK.WALK_STEP;
    yield lines;
    lines = "";
  }
}

/**
 * `lru_crawler metadump`.
 *
 * @param classes Null: all.
 */
export function* metadump(
  thread: StatThread,
  classes: ReadonlySet<number> | null,
): Generator<string> {
  yield* itemLines(thread, classes, metadumpLine);
  yield "END\r\n";
}

/** `lru_crawler mgdump`. */
export function* mgdump(
  thread: StatThread,
  classes: ReadonlySet<number> | null,
): Generator<string> {
  yield* itemLines(thread, classes, mgdumpLine);
  yield "EN\r\n";
}

/** `stats sizes`: how many items there are of each size, rounded up to 32 bytes. */
export function* sizeStats(thread: StatThread): Generator<StatEntry | null> {
  const { cache: { inspector }, work } = thread;
  const counts = new Map<number, number>();
  const slices = inspector.walkItems(null, (item) => {
    const size = Math.ceil(inspector.bytes(item) / SIZE_STEP_BYTES) * SIZE_STEP_BYTES;
    counts.set(size, (counts.get(size) ?? 0) + 1);
  });
  for (const _ of slices) {
    work.spent += WORK.WALK_STEP;
    yield null;
  }
  const sizes = [...counts].sort((a, b) => a[0] - b[0]);
  for (const [size, count] of sizes) yield [String(size), count];
}

/**
 * `stats cachedump`: a class's items, newest first, but for keys that came in base64 (memcached) or are no word.
 *
 * @param limit 0: all that fit 2 MB.
 */
export function* cachedump(
  thread: StatThread,
  classId: number,
  limit: number,
): Generator<string> {
  const { inspector } = thread.cache;
  let count = 0;
  let length = 0;
  let lines = "";
  const isFull = (): boolean => length > CACHEDUMP_BYTES_MAX || (limit > 0 && count === limit);
  const slices = inspector.walkQueues(classId, (item) => {
    if (inspector.isKeyBinary(item) || !inspector.isKeyOneWord(item) || isFull()) return;
    const line = cachedumpLine(thread, item);
    length += line.length;
    if (length > CACHEDUMP_BYTES_MAX) return;
    count++;
    lines += line;
  });
  for (const _ of slices) {
    thread.work.spent += WORK.WALK_STEP;
    yield lines;
    lines = "";
    if (isFull()) break;
  }
  yield "END\r\n";
}
