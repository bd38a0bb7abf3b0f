import { assert } from "../base/assert.ts";
import { Prefixes } from "../base/prefixes.ts";
import { FIRST_SECOND } from "../limits.ts";
import { CONTROL, type Memory, PAGE, SEGMENT_MASK, SEGMENT_SHIFT } from "../memory/memory.ts";
import type { StoreParts } from "../operations/parts.ts";
import type { StoreOperations } from "../operations/store.ts";
import { writeClock } from "../clock.ts";
import { type PagePiece, pagePieces } from "./page_pieces.ts";
import { prepareItems } from "./prepare.ts";
import { Readmission } from "./readmission.ts";
import {
  describeStore,
  fitsAsPages,
  restoreTables,
  restoreWords,
  saveTables,
  type SnapshotHeader,
  type SnapshotTables,
} from "./snapshot_header.ts";
import { LinksCheck, type LinksSecret } from "./links_check.ts";
import { TablesCheck, type WordOf } from "./tables_check.ts";
import { type ReadPages, SnapshotPages } from "./snapshot_pages.ts";

/** Pages checked between two yields: a millisecond or so. */
const SLICE_PAGES = 16;

/**
 * Saves the whole store and restores it in a later process. No other thread may use the store during either.
 *
 * Pages are saved as they lie in memory, and with them the tables that refer to them. A store with the same classes
 * takes them as they are, whatever its number of threads; nothing is done for a single item. Any other store, and one
 * with too little memory, stores the items as new ones: see `Readmission`.
 */
export class SnapshotOperations {
  readonly #memory: Memory;
  readonly #parts: StoreParts;
  readonly #store: StoreOperations;

  constructor(parts: StoreParts, store: StoreOperations) {
    this.#memory = parts.links.memory;
    this.#parts = parts;
    this.#store = store;
  }

  /**
   * Removes everything that a later process must not serve, in slices. See `prepareItems`.
   *
   * @param removed Prefixes of keys whose items are removed, too; "": all.
   * @throws StoreInUseError when a request is in progress.
   */
  prepare(removed: readonly string[]): Generator<void> {
    return prepareItems(this.#parts.links, prefixesOf(removed));
  }

  describe(): SnapshotHeader {
    return describeStore(this.#memory);
  }

  /** Returns the tables of the store as bytes. */
  saveTables(header: SnapshotHeader): Uint8Array<ArrayBuffer> {
    return saveTables(this.#memory, header);
  }

  /** Cuts the pages of a snapshot into pieces. */
  pieces({ layout }: SnapshotHeader, { pages }: SnapshotTables): PagePiece[] {
    return pagePieces(pages, layout.pageShift);
  }

  /** Returns the memory of a piece. */
  bytesOf({ segment, offset, bytes }: PagePiece): Uint8Array {
    return this.#memory.segments[segment]!.bytes.subarray(offset, offset + bytes);
  }

  /** Whether this store, which is empty, takes the pages of a snapshot as they are. */
  takesPages(header: SnapshotHeader): boolean {
    return fitsAsPages(header, this.#memory);
  }

  /**
   * Checks that the tables are those of the pages, which have been written to `bytesOf` their pieces. Yields between
   * pages; returns what is wrong, or null.
   *
   * @param secret Two random words, which nobody who made the file can know.
   */
  *verify(
    header: SnapshotHeader,
    tables: SnapshotTables,
    secret: LinksSecret,
  ): Generator<void, string | null> {
    const memory = this.#memory;
    const check = new TablesCheck(header, tables);
    const links = new LinksCheck(memory, header, tables, secret);
    const wordOf: WordOf = (chunk, word) =>
      memory.words[chunk >>> SEGMENT_SHIFT]![((chunk & SEGMENT_MASK) << 1) + word]!;
    for (let page = 0; page < header.control.PAGES_EVER_USED; page++) {
      if (!(tables.pages[page * PAGE.WORDS + PAGE.CLASS]! > 0)) continue;
      const ref = memory.pageRef(page);
      const words = memory.words[ref >>> SEGMENT_SHIFT]!;
      const fault = check.pageFault(page, words, (ref & SEGMENT_MASK) << 1, wordOf, links);
      if (fault !== null) return fault;
      if (page % SLICE_PAGES === 0) yield;
    }
    for (let index = 0; index < tables.directory.length; index++) {
      const fault = links.slotsFault(index);
      if (fault !== null) return fault;
      if (index % SLICE_PAGES === 0) yield;
    }
    return check.totalsFault() ?? links.fault();
  }

  /** Makes the store the one that was saved. Its pages have been written to `bytesOf` their pieces. */
  restorePages(header: SnapshotHeader, tables: SnapshotTables): void {
    restoreTables(this.#memory, tables);
    restoreWords(this.#memory, header);
    const { control } = this.#memory;
    assert(
      control[CONTROL.PAGES_EVER_USED]! <= control[CONTROL.PAGE_COUNT]!,
      "a restored store has no more pages than memory",
    );
    assert(control[CONTROL.RESERVED_ITEMS] === 0, "no value arrives in a restored store");
    assert(this.#parts.guard.leases.count === 0, "no lease comes back with a snapshot");
  }

  /** Makes the empty store usable again after some pages have been written and `restorePages` has not run. */
  discardPages(): void {
    const { control, pageBytes, segments } = this.#memory;
    // The first pages of the hash index and those of the ghost table, which lie in the first segment.
    segments[0]!.bytes.fill(0, 0, control[CONTROL.PAGES_EVER_USED]! * pageBytes);
  }

  /**
   * Returns the work of storing all items of a snapshot as new ones in this store, which is empty.
   *
   * @param removed Prefixes of keys whose items are left out.
   * @throws TablesError in its first steps, when nothing is stored, if the pages are not those of the tables.
   */
  readmit(
    header: SnapshotHeader,
    tables: SnapshotTables,
    read: ReadPages,
    removed: readonly string[],
  ): Readmission {
    const { control } = this.#memory;
    for (const name of FLUSH_WORDS) control[CONTROL[name]] = header.control[name];
    const pages = new SnapshotPages(header, tables, read);
    return new Readmission(this.#parts, this.#store, prefixesOf(removed), pages);
  }

  /** Sets the clock of a restored store. */
  resumeClock(clockMs: number): void {
    writeClock(this.#memory, clockMs);
    this.#memory.control[CONTROL.RESUMED_SEC] = this.#memory.control[CONTROL.NOW_SEC]! -
      FIRST_SECOND;
  }
}

/** Returns the set of keys, or null if it is empty: then pages with plain items need no look at their keys. */
function prefixesOf(texts: readonly string[]): Prefixes | null {
  return texts.length === 0 ? null : new Prefixes(texts);
}

const FLUSH_WORDS = ["FLUSH_LOW", "FLUSH_HIGH", "FLUSH_AT_SEC", "OLDEST_LIVE_SEC"] as const;
