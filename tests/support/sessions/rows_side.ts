import { changeOf, hasExpired, type Row } from "../../../lib/rows/databases/backend.ts";
import { RowEdit } from "../../../lib/rows/row_edits.ts";
import type { Cache } from "../../../store/cache.ts";
import { clockSec } from "../../../store/clock.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { openCache, RowKind, type RowRequest } from "../../../store/row_cache.ts";
import { databaseRow, Memory } from "../../../store/setup.ts";
import { Outcome } from "../../../store/outcome.ts";
import type { SavedStore } from "../saved_store.ts";
import { ConversationSide } from "./conversation_side.ts";
import { held } from "../store.ts";

const EVERY_NAME = Object.assign(new Set<string>(), { has: () => true });

/** A server in which every key is a row of a database in memory, which answers at once. */
export class RowsSide extends ConversationSide {
  /** The first read of a row is a miss. */
  override readonly unsteadyStats = EVERY_NAME;
  readonly rows = new Map<string, Row>();
  readonly #database: Cache;
  /** The last one. */
  protected version = 1000;

  /** @param rightFrom, saved As of `ConversationSide`. */
  constructor(options: readonly string[] = [], rightFrom?: string, saved?: SavedStore) {
    super(["--db", "sqlite:none", ...options], rightFrom, saved);
    const { shared } = this.thread.memory;
    this.#database = openCache(new Memory(shared, databaseRow(shared.options)));
  }

  /** The server's rows, as the database's thread has them. */
  get serverRows(): NonNullable<Cache["rows"]> {
    return this.#database.rows!;
  }

  protected override work(): void {
    // Called before the constructor has ended, too.
    if (this.#database?.rows) this.answer(this.take());
  }

  /** Takes what is queued. */
  take(): RowRequest[] {
    return held(this.#database, () => this.serverRows.take(1000));
  }

  answer(taken: readonly RowRequest[]): void {
    const reads = taken.filter(({ kind }) => kind === RowKind.READ);
    for (const [key, group] of Map.groupBy(reads, ({ key }) => key)) {
      this.serverRows.answerRead(group, this.#rowOf(key), true);
    }
    for (const request of taken) {
      if (request.kind === RowKind.COMMAND) this.serverRows.fail([request], "no commands");
      else if (request.kind !== RowKind.READ) this.#write(request);
    }
  }

  /** The row, unless its time is over. */
  #rowOf(key: string): Row | null {
    const row = this.rows.get(key) ?? null;
    const { memory } = this.#database;
    const nowUnixMs = (memory.control[CONTROL.STARTED_UNIX_SEC]! + clockSec(memory)) * 1000;
    return row !== null && hasExpired(row.expiresUnixSec ?? 0, nowUnixMs) ? null : row;
  }

  #write(request: RowRequest): void {
    const { key, owner } = request;
    const rows = this.serverRows;
    const isFree = held(this.#database, () => rows.removal.invalidate(key, owner));
    if (!isFree) return rows.answer(request, Outcome.LOCKED);
    const old = this.#rowOf(key);
    const fits = (length: number): boolean => rows.fits(key.length, length, request.flags);
    const work = new RowEdit(request, rows.valueOf(request), fits);
    const change = changeOf(work.edit, old);
    if (change === null) return rows.answer(request, work.outcome, { version: old?.version ?? 0 });
    const version = ++this.version;
    if (change === "delete") this.rows.delete(key);
    else this.rows.set(key, { ...change, version });
    const { outcome, number, row } = work;
    rows.answer(request, outcome, { version, number, ...row && { row: { ...row, version } } });
  }
}
