import { changeOf, hasExpired, type Row } from "../../../lib/databases/base/backend.ts";
import type { SentReply, SentWrite } from "../../../lib/rows/nodes/wire.ts";
import { RowEdit } from "../../../lib/rows/flows/row_edit.ts";
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

  /**
   * @param rightFrom The source of the right to serve rows.
   * @param source The option that names where the rows are.
   * @param saved As of `ConversationSide`.
   */
  constructor(
    options: readonly string[] = [],
    rightFrom?: string,
    source: readonly string[] = ["--db", "sqlite:none"],
    saved?: SavedStore,
  ) {
    super([...source, ...options], rightFrom, saved);
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
    const groups = [...Map.groupBy(reads, ({ key }) => key)];
    const rows = this.read(groups.map(([key]) => key));
    for (const [index, [, group]] of groups.entries()) {
      this.serverRows.answerRead(group, rows[index]!, true);
    }
    for (const request of taken) {
      if (request.kind === RowKind.COMMAND) this.serverRows.fail([request], "no commands");
      else if (request.kind !== RowKind.READ) this.#write(request);
    }
  }

  /** Returns the rows, unless their time is over. */
  protected read(keys: readonly string[]): (Row | null)[] {
    return keys.map((key) => this.#rowOf(key));
  }

  #rowOf(key: string): Row | null {
    const row = this.rows.get(key) ?? null;
    const { memory } = this.#database;
    const nowUnixMs = (memory.control[CONTROL.STARTED_UNIX_SEC]! + clockSec(memory)) * 1000;
    return row !== null && hasExpired(row.expiresUnixSec ?? 0, nowUnixMs) ? null : row;
  }

  #write(request: RowRequest): void {
    const rows = this.serverRows;
    const { reply, outcome, number, row } = this.write({ request, data: rows.valueOf(request) });
    if (reply.kind === "refused") {
      rows.answer(request, outcome, { version: reply.row?.version ?? 0 });
    } else if (reply.kind === "committed") {
      const { version } = reply;
      rows.answer(request, outcome, { version, number, ...row && { row: { ...row, version } } });
    } else {
      rows.answer(request, Outcome.LOCKED);
    }
  }

  /** Takes rows out of the cache, whoever has written them. */
  protected delete(keys: readonly string[]): void {
    held(this.#database, () => {
      for (const key of keys) this.serverRows.removal.invalidate(key, 0);
    });
  }

  /** Takes a row out of the cache, and executes a write. */
  protected write({ request, data }: SentWrite & { request: RowRequest }): SentReply {
    const { key, owner } = request;
    const isFree = held(this.#database, () => this.serverRows.removal.invalidate(key, owner));
    if (isFree) return this.execute({ request, data });
    return { reply: { kind: "locked" }, outcome: Outcome.LOCKED, number: 0n, row: null };
  }

  /** Executes a write in the database. */
  protected execute({ request, data }: SentWrite): SentReply {
    const { key } = request;
    const old = this.#rowOf(key);
    const fits = (length: number): boolean =>
      this.serverRows.fits(key.length, length, request.flags);
    const work = new RowEdit(request, data, fits);
    const change = changeOf(work.edit, old);
    const { outcome, number } = work;
    if (change === null) {
      return { reply: { kind: "refused", row: old }, outcome, number, row: null };
    }
    const version = ++this.version;
    if (change === "delete") this.rows.delete(key);
    else this.rows.set(key, { ...change, version });
    return { reply: { kind: "committed", version }, outcome, number, row: work.row };
  }
}
