import { ByteRegion } from "../base/bytes.ts";
import { runAt } from "../memory/chunk_runs.ts";
import {
  HEADER_BYTES,
  type ItemRef,
  KEY_LENGTH_MASK,
  NO_ITEM,
  optionalBytes,
  ownIdHigh,
  STATE,
  WORD,
} from "../memory/item.ts";
import { CLASS, PAGE } from "../memory/memory.ts";
import { highHalf } from "../base/u64.ts";
import { pagePieces } from "./page_pieces.ts";
import { TablesCheck, type WordOf } from "./tables_check.ts";
import type { SnapshotHeader, SnapshotTables } from "./snapshot_header.ts";

/** Reads bytes of a snapshot's pages; position 0 is the first byte of the first page. Throws at the end of the file. */
export type ReadPages = (position: number, to: Uint8Array) => void;

/** The tables of a snapshot are not those of its pages. */
export class TablesError extends Error {
  override readonly name = "TablesError";
}

function requireNone(fault: string | null): void {
  if (fault !== null) throw new TablesError(fault);
}

/** An item in the bytes of a snapshot. Good until the next one is read. */
export class SavedItem {
  state = 0;
  deadlineSec = 0;
  accessedSec = 0;
  idLow = 0;
  idHigh = 0;
  clientFlags = 0;
  explicitLow = 0;
  explicitHigh = 0;
  keyOffset = 0;
  keyLength = 0;
  valueLength = 0;
  /** The value's bytes that stand behind the key. */
  headLength = 0;
  /** The first chunk of the chain with the rest, or NO_ITEM. */
  chain = NO_ITEM;

  /** @param bytes Has the page in which the item lies. */
  constructor(readonly bytes: ByteRegion) {}
}

/** The pages of a snapshot that no store can use as they are: their items are read one by one. */
export class SnapshotPages {
  readonly #header: SnapshotHeader;
  readonly #tables: SnapshotTables;
  readonly #read: ReadPages;
  readonly #pageShift: number;
  readonly #largeClass: number;
  readonly #lastHigh: number;
  /** Positions of pages in the file; -1: not in it. */
  readonly #positions: Float64Array;
  /** The words of `#chunk`. */
  readonly #words = new DataView(new ArrayBuffer(HEADER_BYTES));
  #chunk: ItemRef = NO_ITEM;

  constructor(header: SnapshotHeader, tables: SnapshotTables, read: ReadPages) {
    this.#header = header;
    this.#tables = tables;
    this.#read = read;
    this.#pageShift = header.layout.pageShift;
    this.#largeClass = header.layout.chunkBytes.length;
    this.#lastHigh = highHalf(header.lastId);
    this.#positions = new Float64Array(header.control.PAGES_EVER_USED).fill(-1);
    let position = 0;
    for (const { firstPage, pages } of pagePieces(tables.pages, this.#pageShift)) {
      for (let page = firstPage; page < firstPage + pages; page++) {
        this.#positions[page] = position;
        position += 1 << this.#pageShift;
      }
    }
  }

  /** As `items`. @throws TablesError if the pages are not those of the tables. */
  *verifiedItems(visit: (item: SavedItem) => void): Generator<void> {
    const check = new TablesCheck(this.#header, this.#tables);
    const wordOf: WordOf = (chunk, word) => this.#chunkWords(chunk).getInt32(4 * word, true);
    yield* this.items(visit, (page, bytes) => {
      requireNone(check.pageFault(page, new Int32Array(bytes.buffer), 0, wordOf, null));
    });
    requireNone(check.totalsFault());
  }

  /**
   * Calls `visit` with every item of every page, in the order of the pages. Yields after every page.
   *
   * @param check Called with every page before its items.
   */
  *items(
    visit: (item: SavedItem) => void,
    check?: (page: number, bytes: Uint8Array) => void,
  ): Generator<void> {
    const item = new SavedItem(new ByteRegion(new ArrayBuffer(1 << this.#pageShift)));
    for (let page = 0; page < this.#positions.length; page++) {
      const row = page * PAGE.WORDS;
      const classId = this.#tables.pages[row + PAGE.CLASS]!;
      if (classId <= 0) continue;
      this.#read(this.#positions[page]!, item.bytes.bytes);
      check?.(page, item.bytes.bytes);
      const chunkBytes = this.#tables.classes[classId * CLASS.WORDS + CLASS.CHUNK_BYTES]!;
      const carved = this.#tables.pages[row + PAGE.CARVED]!;
      const runs = this.#tables.pages[row + PAGE.RUNS]!;
      for (let index = 0; index < carved; index++) {
        if (classId === this.#largeClass && runAt(runs, index) === 0) continue;
        if (this.#parse(item, index * chunkBytes, chunkBytes)) visit(item);
      }
      yield;
    }
  }

  /** Reads the words of a chunk. @returns False if it is no item of the cache. */
  #parse(item: SavedItem, at: number, chunkBytes: number): boolean {
    const { view } = item.bytes;
    const word = (index: number): number => view.getInt32(at + 4 * index, true);
    const state = word(WORD.STATE);
    if ((state & STATE.LINKED) === 0) return false;
    const middleAndLength = word(WORD.ID_MIDDLE_AND_LENGTH);
    item.state = state;
    item.deadlineSec = word(WORD.DEADLINE_SEC);
    item.accessedSec = word(WORD.ACCESSED_SEC);
    item.idLow = word(WORD.ID_LOW);
    item.idHigh = ownIdHigh(middleAndLength, this.#lastHigh);
    let next: number = WORD.CLIENT_FLAGS;
    item.clientFlags = (state & STATE.HAS_FLAGS) !== 0 ? word(next++) : 0;
    if ((state & STATE.EXPLICIT_ID) !== 0) {
      item.explicitLow = word(next++);
      item.explicitHigh = word(next++);
    }
    item.chain = NO_ITEM;
    if ((state & STATE.CHAINED) !== 0) {
      item.chain = word(next);
      next += 2;
    }
    item.valueLength = (state & STATE.LONG_VALUE) !== 0 ? word(next) : middleAndLength & 0xffff;
    item.keyLength = state & KEY_LENGTH_MASK;
    item.keyOffset = at + HEADER_BYTES + optionalBytes(state);
    const largeBytes = this.#header.layout.chunkBytes[this.#largeClass - 1]!;
    const room = (item.chain === NO_ITEM ? chunkBytes : largeBytes) -
      (item.keyOffset - at + item.keyLength);
    item.headLength = Math.min(item.valueLength, room);
    return true;
  }

  /** Calls `write` with the pieces of a value that lie in the item's chain, in order. */
  readChain({ chain }: SavedItem, write: (piece: ByteRegion, length: number) => void): void {
    for (let chunk = chain; chunk !== NO_ITEM;) {
      const words = this.#chunkWords(chunk);
      const length = words.getInt32(4 * WORD.PIECE_LENGTH, true);
      const next = words.getInt32(4 * WORD.OLDER, true);
      const piece = new ByteRegion(new ArrayBuffer(length));
      this.#read(this.#positionOf(chunk) + HEADER_BYTES, piece.bytes);
      write(piece, length);
      chunk = next;
    }
  }

  /** Returns the words of a chunk in the file. Good until those of the next one are read. */
  #chunkWords(chunk: ItemRef): DataView<ArrayBuffer> {
    if (chunk !== this.#chunk) {
      this.#read(this.#positionOf(chunk), new Uint8Array(this.#words.buffer));
      this.#chunk = chunk;
    }
    return this.#words;
  }

  #positionOf(chunk: ItemRef): number {
    const refShift = this.#pageShift - 3;
    const page = chunk >>> refShift;
    return this.#positions[page]! + (chunk - ((page << refShift) | 0)) * 8;
  }
}
