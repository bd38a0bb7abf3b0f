import { type ItemRef, NO_ITEM, STATE, WORD } from "../../store/memory/item.ts";
import { percentEncoded } from "../../store/base/key_text.ts";
import { CONTROL, PAGE } from "../../store/memory/memory.ts";
import { u64ToBigInt } from "../../store/base/u64.ts";
import type { ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** Items looked at before others have their turn with the store: some 50 microseconds, and at most 50 KB of text. */
const SLICE_ITEMS = 64;
const SIZE_STEP_BYTES = 32;
/** memcached's bound of what cachedump answers. */
const CACHEDUMP_BYTES_MAX = 2 * 1024 * 1024;

/** What dumps say of an item. Everything is read while the reference is good. */
class ItemSource {
  readonly #thread: ThreadContext;

  constructor(thread: ThreadContext) {
    this.#thread = thread;
  }

  /** Bytes as characters below 256. */
  key(item: ItemRef): string {
    return this.#thread.cache.links.watch.keyOf(item);
  }

  hasState(item: ItemRef, bits: number): boolean {
    return (this.#thread.cache.items.state(item) & bits) !== 0;
  }

  bytes(item: ItemRef): number {
    return this.#thread.cache.links.bytesOf(item);
  }

  isDead(item: ItemRef): boolean {
    return this.#thread.cache.links.isDead(item);
  }

  /** An instant of the store's clock as Unix time. */
  unixSec(instantSec: number): number {
    return this.#thread.memory.control[CONTROL.STARTED_UNIX_SEC]! + instantSec;
  }

  metadumpLine(item: ItemRef, classId: number): string {
    const { cache } = this.#thread;
    const deadline = cache.deadlineSec(item);
    const expires = deadline === 0 ? -1 : this.unixSec(deadline);
    const accessed = this.unixSec(cache.items.word(item, WORD.ACCESSED_SEC));
    const id = u64ToBigInt(cache.idLow(item), cache.idHigh(item));
    const fetched = this.hasState(item, STATE.FETCHED) ? "yes" : "no";
    return `key=${percentEncoded(this.key(item))} exp=${expires} la=${accessed} cas=${id} ` +
      `fetch=${fetched} cls=${classId} size=${this.bytes(item)} flags=${
        cache.clientFlags(item)
      } \n`;
  }

  mgdumpLine(item: ItemRef): string {
    const key = this.key(item);
    return this.hasState(item, STATE.KEY_BINARY) ? `mg ${btoa(key)} b\r\n` : `mg ${key}\r\n`;
  }

  cachedumpLine(item: ItemRef): string {
    const { cache } = this.#thread;
    const deadline = cache.deadlineSec(item);
    const expires = deadline === 0 ? 0 : this.unixSec(deadline);
    return `ITEM ${this.key(item)} [${cache.valueLength(item)} b; ${expires} s]\r\n`;
  }
}

/**
 * Calls `visit` with every live item of some classes, and yields from time to time so that the
 * store can go on. Items that are stored, or moved to another page, meanwhile may be missed or met
 * twice.
 *
 * @param classes Null: all.
 */
function* walk(
  thread: ThreadContext,
  classes: ReadonlySet<number> | null,
  visit: (item: ItemRef, classId: number) => void,
): Generator<void> {
  const { memory, cache } = thread;
  const { slabs } = cache.links;
  const source = new ItemSource(thread);
  for (let page = 0; page < memory.control[CONTROL.PAGES_EVER_USED]!; page++) {
    const row = page * PAGE.WORDS;
    for (let index = 0;; index++) {
      // Read anew each time: the page may have changed hands while others had their turn.
      const classId = memory.pages[row + PAGE.CLASS]!;
      if (classId <= 0 || index >= memory.pages[row + PAGE.CARVED]!) break;
      if (classes !== null && !classes.has(classId)) break;
      const item = slabs.usedChunkAt(page, index, classId);
      if (item !== NO_ITEM && source.hasState(item, STATE.LINKED) && !source.isDead(item)) {
        visit(item, classId);
      }
      if (index % SLICE_ITEMS === SLICE_ITEMS - 1) yield;
    }
    yield;
  }
}

/** As `walk`, with a line for every item. */
function* walkLines(
  thread: ThreadContext,
  classes: ReadonlySet<number> | null,
  line: (source: ItemSource, item: ItemRef, classId: number) => string,
): Generator<string> {
  const source = new ItemSource(thread);
  let lines = "";
  const visits = walk(thread, classes, (item, classId) => {
    lines += line(source, item, classId);
  });
  for (const _ of visits) {
    yield lines;
    lines = "";
  }
}

/** `lru_crawler metadump`. */
export function* metadump(
  thread: ThreadContext,
  classes: ReadonlySet<number> | null,
): Generator<string> {
  yield* walkLines(
    thread,
    classes,
    (source, item, classId) => source.metadumpLine(item, classId),
  );
  yield "END\r\n";
}

/** `lru_crawler mgdump`. */
export function* mgdump(
  thread: ThreadContext,
  classes: ReadonlySet<number> | null,
): Generator<string> {
  yield* walkLines(thread, classes, (source, item) => source.mgdumpLine(item));
  yield "EN\r\n";
}

/** `stats sizes`: how many items there are of each size, rounded up to 32 bytes. */
export function* sizeStats(thread: ThreadContext): Generator<StatEntry | null> {
  const source = new ItemSource(thread);
  const counts = new Map<number, number>();
  const visits = walk(thread, null, (item) => {
    const size = Math.ceil(source.bytes(item) / SIZE_STEP_BYTES) * SIZE_STEP_BYTES;
    counts.set(size, (counts.get(size) ?? 0) + 1);
  });
  for (const _ of visits) yield null;
  const sizes = [...counts].sort((a, b) => a[0] - b[0]);
  for (const [size, count] of sizes) yield [String(size), count];
}

/** Items of a queue, newest first, while others change it now and then. */
class QueueWalk {
  readonly #thread: ThreadContext;
  readonly #classId: number;
  readonly #main: boolean;
  /** The next ones when others had their turn, with the lower halves of their ids: some of them will still be there. */
  readonly #next: { item: ItemRef; idLow: number }[] = [];

  constructor(thread: ThreadContext, classId: number, main: boolean) {
    this.#thread = thread;
    this.#classId = classId;
    this.#main = main;
  }

  /**
   * Calls `visit` with the next SLICE_ITEMS.
   *
   * @returns Whether there are more.
   */
  slice(isFirst: boolean, visit: (item: ItemRef) => void): boolean {
    const { items, links } = this.#thread.cache;
    let item = isFirst ? links.queues.newest(this.#classId, this.#main) : this.#found();
    for (let count = 0; count < SLICE_ITEMS && item !== NO_ITEM; count++) {
      visit(item);
      item = items.word(item, WORD.OLDER);
    }
    this.#next.length = 0;
    for (
      ;
      item !== NO_ITEM && this.#next.length < SLICE_ITEMS;
      item = items.word(item, WORD.OLDER)
    ) {
      this.#next.push({ item, idLow: items.ownIdLow(item) });
    }
    return this.#next.length > 0;
  }

  /** The first of the next ones that is still in the queue, or NO_ITEM. */
  #found(): ItemRef {
    const { items, links } = this.#thread.cache;
    for (const { item, idLow } of this.#next) {
      if (links.slabs.classOf(item) !== this.#classId) continue; // its page has changed hands
      if (!links.slabs.isInUse(item)) continue; // or may be in the middle of another one's value
      const state = items.state(item);
      if (
        (state & (STATE.LINKED | STATE.LOCKED | STATE.CONTINUATION)) === STATE.LINKED &&
        ((state & STATE.MAIN) !== 0) === this.#main && items.ownIdLow(item) === idLow
      ) return item;
    }
    return NO_ITEM;
  }
}

/**
 * `stats cachedump`: a class's items, newest first.
 *
 * @param limit 0: all that fit 2 MB.
 */
export function* cachedump(
  thread: ThreadContext,
  classId: number,
  limit: number,
): Generator<string> {
  const source = new ItemSource(thread);
  let count = 0;
  let length = 0;
  for (const main of [false, true]) {
    const walk = new QueueWalk(thread, classId, main);
    let more = true;
    for (let isFirst = true; more; isFirst = false) {
      let lines = "";
      more = walk.slice(isFirst, (item) => {
        if (source.isDead(item) || source.hasState(item, STATE.KEY_BINARY)) return;
        if (length > CACHEDUMP_BYTES_MAX || (limit > 0 && count === limit)) return;
        const line = source.cachedumpLine(item);
        length += line.length;
        if (length > CACHEDUMP_BYTES_MAX) return;
        count++;
        lines += line;
      });
      yield lines;
      if (length > CACHEDUMP_BYTES_MAX || (limit > 0 && count === limit)) more = false;
    }
  }
  yield "END\r\n";
}
