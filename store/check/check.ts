import { ArrivingValues } from "../space/arriving_values.ts";
import { assert } from "../base/assert.ts";
import { type ItemRef, Items, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { checkLeases } from "./check_leases.ts";
import { checkLocks } from "./check_locks.ts";
import { checkTokens } from "./check_tokens.ts";
import { ItemLinks } from "../items/item_links.ts";
import { CLASS, CONTROL, type Memory, NO_PAGE, PAGE, PAGE_OWNER, SUM } from "../memory/memory.ts";
import { REQUEST_HEADER } from "../memory/request_layout.ts";
import { BEING_EMPTIED, LISTED, NOT_LISTED } from "../memory/slabs.ts";
import { Values } from "../items/values.ts";

/** Chunks seen in all pages. */
interface ChunkTotals {
  /** Items in the index. */
  linked: number;
  /** Runs found by walking the chains of items. */
  inChains: number;
  /** Runs found in pages. */
  continuations: number;
  /** Items that requests for rows refer to. */
  detached: number;
}

/**
 * Walks the whole store and asserts that its parts agree: pages, chunks, index, queues, chains, arriving values,
 * locks, leases, update tokens, versions, sums.
 * For tests: it takes time proportional to the size of the store. The caller holds the mutex.
 *
 * @returns How many items there are.
 * @throws Error at the first disagreement.
 */
export function checkStore(memory: Memory): number {
  new Check(memory).run();
  return memory.control[CONTROL.ITEM_COUNT]!;
}

class Check {
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  readonly #items: Items;
  readonly #values: Values;

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#links = new ItemLinks(memory);
    this.#items = this.#links.items;
    this.#values = new Values(this.#links);
  }

  run(): void {
    const linked = this.#checkIndex();
    this.#checkQueues(linked);
    checkLocks(this.#links, linked);
    this.#checkPages(linked);
    this.#checkRoomLists();
    this.#checkPool();
    this.#checkVersions();
    checkArriving(this.#links);
    checkLeases(this.#links);
    checkTokens(this.#links);
  }

  /** The caller holds the mutex, so no change is in progress. */
  #checkVersions(): void {
    for (const version of this.#memory.versions.words) {
      assert((version & 1) === 0, "versions are even between two changes");
    }
  }

  /** Every bucket's items: right bucket, linked once. Returns them. */
  #checkIndex(): Set<ItemRef> {
    const { control } = this.#memory;
    const { index } = this.#links;
    const found = new Set<ItemRef>();
    const buckets = control[CONTROL.HASH_BUCKETS]!;
    const level = control[CONTROL.HASH_LEVEL]!;
    assert(level <= buckets && buckets < 2 * level, "buckets lie between two powers of two");
    for (let bucket = 0; bucket < buckets; bucket++) {
      let item = index.head(bucket);
      for (; item !== NO_ITEM; item = this.#items.word(item, WORD.HASH_NEXT)) {
        assert(!found.has(item), "an item is in the index once");
        found.add(item);
        assert(index.bucketOf(index.hashOf(item)) === bucket, "an item is in its key's bucket");
        const state = this.#items.state(item);
        assert((state & STATE.LINKED) !== 0, "an item of the index is marked as linked");
        assert((state & (STATE.RESERVED | STATE.CONTINUATION)) === 0, "only items are linked");
        const { slabs } = this.#links;
        assert(
          (state & STATE.CHAINED) !== 0 ||
            slabs.classOf(item) === slabs.classFor(this.#links.bytesOf(item)),
          "an item without a chain is in the class of its size",
        );
      }
    }
    assert(found.size === control[CONTROL.ITEM_COUNT], "ITEM_COUNT counts the index");
    return found;
  }

  #checkQueues(linked: Set<ItemRef>): void {
    const { queues, slabs } = this.#links;
    const bytesOfClass = new Float64Array(slabs.classCount + 1);
    let queued = 0;
    for (const item of linked) {
      bytesOfClass[slabs.classOf(item)]! += this.#links.bytesOf(item);
      if (this.#items.state(item) & STATE.LOCKED) queued++;
    }
    let totalBytes = 0;
    for (let classId = 1; classId <= slabs.classCount; classId++) {
      for (const main of [false, true]) {
        let count = 0;
        let newer: ItemRef = NO_ITEM;
        let item = queues.newest(classId, main);
        for (; item !== NO_ITEM; item = this.#items.word(item, WORD.OLDER)) {
          assert(linked.has(item), "a queued item is in the index");
          assert(this.#items.word(item, WORD.NEWER) === newer, "queue links agree");
          assert(slabs.classOf(item) === classId, "an item is in its class's queue");
          const marked = (this.#items.state(item) & STATE.MAIN) !== 0;
          assert(marked === main, "an item is in the queue its state names");
          assert((this.#items.state(item) & STATE.LOCKED) === 0, "a locked item is in no queue");
          count++;
          newer = item;
        }
        assert(queues.oldest(classId, main) === newer, "a queue ends at its oldest item");
        assert(queues.count(classId, main) === count, "a queue counts its items");
        queued += count;
      }
      const counted = this.#memory.requestedBytes(classId);
      assert(counted === bytesOfClass[classId], "a class counts the bytes of its items");
      totalBytes += counted;
    }
    assert(queued === linked.size, "every linked item is in a queue or locked");
    assert(this.#memory.sums[SUM.ITEM_BYTES] === totalBytes, "the store counts its bytes");
  }

  /** Every page: each chunk in use is an item or part of one item's chain, and the others are free. */
  #checkPages(linked: Set<ItemRef>): void {
    const { pages, control } = this.#memory;
    const { slabs } = this.#links;
    const usedOfClass = new Int32Array(slabs.classCount + 1);
    const pagesOfClass = new Int32Array(slabs.classCount + 1);
    const totals: ChunkTotals = { linked: 0, inChains: 0, continuations: 0, detached: 0 };
    for (let page = 0; page < control[CONTROL.PAGES_EVER_USED]!; page++) {
      const row = page * PAGE.WORDS;
      const classId = pages[row + PAGE.CLASS]!;
      if (classId <= 0) continue;
      pagesOfClass[classId]! += 1;
      usedOfClass[classId]! += pages[row + PAGE.USED]!;
      const used = this.#checkChunks(page, classId, linked, totals);
      assert(used === pages[row + PAGE.USED], "a page counts its chunks in use");
      // A page that was just given to a class has no chunks yet.
      const fresh = pages[row + PAGE.CARVED] === 0;
      const emptied = page === control[CONTROL.MOVE_PAGE];
      assert(used > 0 || fresh || emptied, "an empty page goes back to the pool");
      if (classId !== slabs.largeClass) {
        this.#checkFreeList(page, pages[row + PAGE.CARVED]! - used);
      }
      this.#checkListed(page, classId);
    }
    assert(totals.linked === linked.size, "every linked item lies in a page of a class");
    const { shared, options } = this.#memory;
    const counted = options.rows === undefined
      ? 0
      : new Int32Array(shared.rowRequests)[REQUEST_HEADER.DETACHED_ITEMS];
    assert(totals.detached === counted, "items of requests for rows are counted");
    assert(totals.continuations === totals.inChains, "every chunk of a chain belongs to an item");
    for (let classId = 1; classId <= slabs.classCount; classId++) {
      const row = classId * CLASS.WORDS;
      assert(this.#memory.classes[row + CLASS.PAGES] === pagesOfClass[classId], "pages of a class");
      assert(this.#memory.classes[row + CLASS.USED] === usedOfClass[classId], "chunks of a class");
    }
  }

  /** One page's chunks in use. Adds them to `totals` and returns their number, each chunk of a run counted. */
  #checkChunks(
    page: number,
    classId: number,
    linked: Set<ItemRef>,
    totals: ChunkTotals,
  ): number {
    const { pages, control } = this.#memory;
    const { slabs } = this.#links;
    const row = page * PAGE.WORDS;
    // In the middle of its sweep a page does not know its soonest deadline.
    const inSweep = page === control[CONTROL.SWEEP_PAGE] && control[CONTROL.SWEEP_CHUNK]! > 0;
    let used = 0;
    for (let index = 0; index < pages[row + PAGE.CARVED]!; index++) {
      const chunk = slabs.usedChunkAt(page, index, classId);
      if (chunk === NO_ITEM) continue;
      const state = this.#items.state(chunk);
      assert(state !== 0, "a chunk in use has a state");
      used += slabs.chunkCountOf(chunk);
      if (state & STATE.CONTINUATION) {
        totals.continuations++;
        continue;
      }
      if (state & STATE.CHAINED) totals.inChains += this.#checkChain(chunk);
      if (state & STATE.DETACHED) totals.detached++;
      if (!(state & STATE.LINKED)) continue;
      assert(linked.has(chunk), "an item marked as linked is in the index");
      if (!inSweep) this.#checkDeadline(chunk, pages[row + PAGE.SOONEST_SEC]!);
      totals.linked++;
    }
    return used;
  }

  #checkDeadline(item: ItemRef, soonestSec: number): void {
    if (this.#items.state(item) & STATE.LOCKED) return;
    const deadlineSec = this.#items.word(item, WORD.DEADLINE_SEC);
    assert(deadlineSec <= 0 || deadlineSec >= soonestSec, "a page knows its soonest deadline");
  }

  #checkChain(item: ItemRef): number {
    const expected = this.#values.chainedLength(item);
    const { slabs } = this.#links;
    let bytes = 0;
    let count = 0;
    let previous: ItemRef = NO_ITEM;
    let chunk = this.#items.word(item, this.#items.chainWord(item));
    for (; chunk !== NO_ITEM; chunk = this.#items.word(chunk, WORD.OLDER)) {
      assert(this.#items.word(chunk, WORD.CHAIN_PREVIOUS) === previous, "chain links agree");
      previous = chunk;
      assert((this.#items.state(chunk) & STATE.CONTINUATION) !== 0, "a chain is of chunks");
      assert(this.#items.word(chunk, WORD.NEWER) === item, "a chunk knows its item");
      const length = this.#items.word(chunk, WORD.PIECE_LENGTH);
      assert(
        slabs.chunkCountOf(chunk) === slabs.chunkCountFor(length),
        "a run has as many chunks as it needs",
      );
      bytes += length;
      count++;
    }
    const missing = this.#items.state(item) & STATE.RESERVED
      ? this.#items.word(item, WORD.NEWER)
      : 0;
    assert(bytes + missing === expected, "a chain is as long as its value needs");
    return count;
  }

  #checkFreeList(page: number, expected: number): void {
    const { pages, refPageShift } = this.#memory;
    let count = 0;
    let chunk = pages[page * PAGE.WORDS + PAGE.FREE_CHUNK]!;
    for (; chunk !== NO_ITEM; chunk = this.#items.word(chunk, WORD.HASH_NEXT)) {
      assert(chunk >>> refPageShift === page, "a free chunk is of its page");
      assert(this.#items.state(chunk) === 0, "a free chunk has no state");
      count++;
    }
    assert(count === expected, "a page lists its free chunks");
  }

  #checkListed(page: number, classId: number): void {
    const { pages } = this.#memory;
    const full = pages[page * PAGE.WORDS + PAGE.USED] ===
      this.#memory.classes[classId * CLASS.WORDS + CLASS.CHUNKS_PER_PAGE];
    const listed = pages[page * PAGE.WORDS + PAGE.LISTED];
    if (page === this.#memory.control[CONTROL.MOVE_PAGE]) {
      assert(listed === BEING_EMPTIED, "nothing is allocated from a page that is emptied");
    } else {
      assert(listed === (full ? NOT_LISTED : LISTED), "a page with room is listed as such");
    }
  }

  #checkRoomLists(): void {
    const { classes, pages } = this.#memory;
    for (let classId = 1; classId <= this.#links.slabs.classCount; classId++) {
      let previous = NO_PAGE;
      let page = classes[classId * CLASS.WORDS + CLASS.ROOM]!;
      for (; page !== NO_PAGE; page = pages[page * PAGE.WORDS + PAGE.NEXT]!) {
        assert(pages[page * PAGE.WORDS + PAGE.CLASS] === classId, "a listed page is of its class");
        assert(pages[page * PAGE.WORDS + PAGE.PREVIOUS] === previous, "page links agree");
        previous = page;
      }
    }
  }

  #checkPool(): void {
    const { control, pages } = this.#memory;
    let count = control[CONTROL.PAGE_COUNT]! - control[CONTROL.PAGES_EVER_USED]!;
    for (
      let page = control[CONTROL.FREE_PAGE]!;
      page !== NO_PAGE;
      page = pages[page * PAGE.WORDS + PAGE.NEXT]!
    ) {
      assert(
        pages[page * PAGE.WORDS + PAGE.CLASS] === PAGE_OWNER.NOBODY,
        "a free page has no owner",
      );
      count++;
    }
    assert(count === control[CONTROL.FREE_PAGE_COUNT], "the pool counts its pages");
  }
}

/** Every arriving value has a reserved item, and the sums are those of the list. */
function checkArriving(links: ItemLinks): void {
  const arriving = new ArrivingValues(links, new Values(links));
  let count = 0;
  let bytes = 0;
  for (const row of arriving) {
    const item = arriving.itemOf(row);
    assert((links.items.state(item) & STATE.RESERVED) !== 0, "an arriving value is reserved");
    count++;
    bytes += arriving.bytesOf(item);
  }
  assert(count === links.memory.control[CONTROL.RESERVED_ITEMS], "arriving values are counted");
  assert(bytes === links.memory.sums[SUM.RESERVED_BYTES], "memory of arriving values is counted");
}
