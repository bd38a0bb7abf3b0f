import type { Cache } from "../../store/cache.ts";
import type { StoreOptions } from "../../store/limits.ts";
import {
  continuedOptions,
  type SnapshotHeader,
  type SnapshotTables,
  tablesIn,
} from "../../store/setup.ts";

/** A store as a snapshot has it, in memory. */
export class SavedStore {
  readonly header: SnapshotHeader;
  /** Items that had no place in the last store. */
  dropped = 0;
  readonly #tables: SnapshotTables;
  /** All pages, one behind the other. */
  readonly #pages: Uint8Array;

  /** Saves a store, as a server does at a clean stop. @param removed Prefixes of rows that are not saved. */
  constructor({ snapshots }: Cache, removed: readonly string[] = []) {
    for (const _ of snapshots.prepare(removed));
    this.header = snapshots.describe();
    this.#tables = tablesIn(this.header, snapshots.saveTables(this.header));
    const pieces = snapshots.pieces(this.header, this.#tables);
    this.#pages = new Uint8Array(pieces.reduce((sum, { bytes }) => sum + bytes, 0));
    let at = 0;
    for (const piece of pieces) {
      this.#pages.set(snapshots.bytesOf(piece), at);
      at += piece.bytes;
    }
  }

  /** Options of a store that goes on with this one. @param downSec Time between the two processes. */
  optionsFrom(options: StoreOptions, downSec: number): StoreOptions {
    return continuedOptions(options, this.header, this.#clockMs(downSec));
  }

  /**
   * Restores the store in an empty one.
   *
   * @param removed Prefixes of keys that must not come back.
   * @returns Whether its pages were taken as they are.
   */
  restore({ snapshots }: Cache, downSec: number, removed: readonly string[] = []): boolean {
    snapshots.resumeClock(this.#clockMs(downSec));
    if (!snapshots.takesPages(this.header)) {
      const read = (position: number, to: Uint8Array): void => {
        to.set(this.#pages.subarray(position, position + to.length));
      };
      const readmission = snapshots.readmit(this.header, this.#tables, read, removed);
      for (const _ of readmission.run());
      this.dropped = readmission.dropped;
      return false;
    }
    let at = 0;
    for (const piece of snapshots.pieces(this.header, this.#tables)) {
      snapshots.bytesOf(piece).set(this.#pages.subarray(at, at + piece.bytes));
      at += piece.bytes;
    }
    snapshots.restorePages(this.header, this.#tables);
    if (removed.length > 0) { for (const _ of snapshots.prepare(removed)); }
    return true;
  }

  #clockMs(downSec: number): number {
    return this.header.clockMs + downSec * 1000;
  }
}
