import type { NodeOptions } from "../rows/nodes/options.ts";
import type { RowsOptions } from "../rows/options.ts";
import { savedRowsOptions } from "../rows/row_arguments.ts";
import type { Snapshot } from "../snapshot/snapshot.ts";
import type { SavedRows } from "../snapshot/snapshot_format.ts";

/**
 * Which rows of a database a snapshot brings into this process, and takes out of it. An origin may keep those of an
 * origin with the same options, if the database has its mark; a node keeps none, and no plain item becomes a row.
 */
export class RowKeeping {
  /** Prefixes of keys whose items of the snapshot are not loaded. */
  readonly removedAtStart: readonly string[];
  /** Whether rows are saved at the end. */
  readonly savesRows: boolean;
  readonly #prefixes: readonly string[];
  readonly #snapshot: Snapshot | null;
  /** Null: this process is no origin. */
  readonly #options: string | null;
  /** The rows that are loaded; null: none. */
  readonly #loaded: SavedRows | null;

  constructor(rows: RowsOptions | NodeOptions | null, snapshot: Snapshot | null) {
    const found = snapshot?.rows ?? null;
    this.#snapshot = snapshot;
    this.#prefixes = rows?.prefixes ?? [];
    // The next start may have another file of views, and with it other values for the same keys.
    const isKept = rows !== null && !("origins" in rows) && rows.views === "";
    this.#options = isKept ? savedRowsOptions(rows) : null;
    this.savesRows = snapshot !== null && this.#options !== null;
    this.#loaded = found?.options === this.#options ? found : null;
    this.removedAtStart = this.#loaded === null
      ? [...this.#prefixes, ...found?.prefixes ?? []]
      : [];
  }

  /** The mark of the rows that were loaded; null: none were. */
  get savedMark(): string | null {
    return this.#snapshot?.isLoaded ? this.#loaded?.mark ?? null : null;
  }

  /** Describes the rows in the snapshot. @param mark The origin's note at its end; "": none. */
  saved(mark: string): SavedRows | null {
    if (mark === "" || this.#options === null) return null;
    return { prefixes: this.#prefixes, options: this.#options, mark };
  }

  /** Returns the prefixes of keys whose items are not saved. @param mark As for `saved`. */
  removedAtEnd(mark: string): readonly string[] {
    return mark === "" ? this.#prefixes : [];
  }
}
