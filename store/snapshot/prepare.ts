import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { takeId } from "../memory/ids.ts";
import { CONTROL, PAGE, SEGMENT_MASK, SEGMENT_SHIFT } from "../memory/memory.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Prefixes } from "../base/prefixes.ts";

/** Pages visited between two yields: a millisecond at most. */
const SLICE_PAGES = 16;

/** States of chunks that a request in progress relies on. */
const IN_USE = STATE.LOCKED | STATE.RESERVED | STATE.DETACHED;

/** An item that a connection still relies on, so that the store cannot be saved. */
export class StoreInUseError extends Error {
  override readonly name = "StoreInUseError";
}

/**
 * Removes everything from a store that a later process must not serve, in slices: placeholders of `mg N`, because the
 * right to fill them ends with the process, notes that a row is absent, and the items of `removed`. An item that one
 * client was told to refill gets a new id, so that only a client of the later process can win it.
 *
 * @param removed Keys whose items are removed; null: none.
 * @throws StoreInUseError when an item is locked, or its value is still arriving.
 */
export function* prepareItems(links: ItemLinks, removed: Prefixes | null): Generator<void> {
  const { control, pages } = links.memory;
  for (let page = 0; page < control[CONTROL.PAGES_EVER_USED]!; page++) {
    const row = page * PAGE.WORDS;
    const classId = pages[row + PAGE.CLASS]!;
    if (classId <= 0) continue;
    if (removed === null && !needsLook(links, page, classId)) continue;
    for (let index = 0; index < pages[row + PAGE.CARVED]!; index++) {
      const item = links.slabs.usedChunkAt(page, index, classId);
      if (item !== NO_ITEM) prepareItem(links, item, removed);
      // A page whose last item is removed goes back to the pool.
      if (pages[row + PAGE.CLASS] !== classId) break;
    }
    if (page % SLICE_PAGES === 0) yield;
  }
}

/** States that say that an item is to be looked at closely. */
const NOT_PLAIN = IN_USE | STATE.STUB | STATE.ABSENT | STATE.VOID | STATE.WON | STATE.CHAINED;

/** Whether a page may have something else than plain items: reads one word of each chunk, as fast as memory is. */
function needsLook({ memory, slabs }: ItemLinks, page: number, classId: number): boolean {
  if (classId === slabs.largeClass) return true;
  const carved = memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
  const first = memory.pageRef(page);
  const words = memory.words[first >>> SEGMENT_SHIFT]!;
  const step = slabs.chunkBytes(classId) >>> 2;
  let at = ((first & SEGMENT_MASK) << 1) + WORD.STATE;
  for (let index = 0; index < carved; index++, at += step) {
    const state = words[at]!;
    // A chunk in use that is no item of the index is still in use by a request.
    if ((state & NOT_PLAIN) !== 0 || (state !== 0 && (state & STATE.LINKED) === 0)) return true;
  }
  return false;
}

function prepareItem(links: ItemLinks, item: ItemRef, removed: Prefixes | null): void {
  const { items, memory } = links;
  const state = items.state(item);
  if ((state & STATE.CONTINUATION) !== 0) return;
  if ((state & IN_USE) !== 0 || (state & STATE.LINKED) === 0 || links.isPinned(item)) {
    throw new StoreInUseError("a request still uses an item");
  }
  const segment = memory.segmentOf(item);
  const isRemoved = removed?.covers(segment, items.keyOffset(item), items.keyLength(item));
  if ((state & (STATE.STUB | STATE.ABSENT | STATE.VOID)) !== 0 || isRemoved === true) {
    links.unlink(item, links.index.hashOf(item));
  } else if ((state & STATE.WON) !== 0) {
    takeId(memory);
    items.setOwnId(item, memory.control[CONTROL.ID_LOW]!, memory.control[CONTROL.ID_HIGH]!);
    items.dropState(item, STATE.WON);
  }
}
