import { DatabaseSync, type StatementSync } from "node:sqlite";
import {
  type Backend,
  changeOf,
  type Edit,
  type Found,
  type NotedCaches,
  type NoteResult,
  type WriteOutcome,
  type WriteResult,
} from "./backend.ts";
import { notesText, readNotes } from "./notes.ts";
import { sqliteSchema } from "./schema.ts";
import { DEFAULT_TABLE, quotedNames, type TableNames } from "./table.ts";
import { reasonOf } from "../../reason.ts";

/** Time that a write waits for another process's lock on the file. */
const BUSY_TIMEOUT_MS = 5000;

/** A row of a result; all columns are null if the row does not exist. */
interface SqliteRow {
  readonly flags: number | null;
  readonly data: Uint8Array | string | null;
  readonly version: number | null;
  readonly epoch: number;
}

/**
 * SQLite in this process. Calls are synchronous, so a write is one step and its outcome is known. If the process dies
 * in a write, the file tells the next proxy. A deleted row stays, with a null value, so that versions only grow.
 */
export class SqliteBackend implements Backend {
  readonly #database: DatabaseSync;
  readonly #read: StatementSync;
  readonly #put: StatementSync;
  readonly #epoch: StatementSync;
  readonly #apply: StatementSync;
  readonly #applied: StatementSync;
  readonly #purge: StatementSync;
  readonly #notes: StatementSync;
  readonly #note: StatementSync;
  readonly #nowUnixMs: () => number;

  /**
   * @param path The path of the database file.
   * @throws SQLite's error.
   */
  constructor(path: string, names: TableNames = DEFAULT_TABLE, nowUnixMs = Date.now) {
    this.#nowUnixMs = nowUnixMs;
    this.#database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
    this.#database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    this.#database.exec(sqliteSchema(names));
    const prepare = (sql: string): StatementSync => this.#database.prepare(sql);
    const { table, key, value, version, flags } = quotedNames(names);
    this.#read = prepare(
      `SELECT row.${flags} AS flags, row.${value} AS data, row.${version} AS version, ` +
        `proxy.epoch AS epoch FROM leased_proxy AS proxy LEFT JOIN ${table} AS row ` +
        `ON row.${key} = ?`,
    );
    this.#put = prepare(
      `INSERT INTO ${table} (${key}, ${flags}, ${value}, ${version}) VALUES (?, ?, ?, 1) ` +
        `ON CONFLICT (${key}) DO UPDATE SET ${flags} = excluded.${flags}, ` +
        `${value} = excluded.${value}, ${version} = ${table}.${version} + 1 RETURNING ${version} AS version`,
    );
    this.#epoch = prepare("UPDATE leased_proxy SET epoch = epoch + 1 RETURNING epoch");
    this.#apply = prepare("INSERT INTO leased_applied (token, version, at) VALUES (?, ?, ?)");
    this.#applied = prepare("SELECT version FROM leased_applied WHERE token = ?");
    this.#notes = prepare("SELECT epoch, list FROM leased_caches");
    this.#note = prepare(
      "UPDATE leased_caches SET epoch = leased_caches.epoch + 1, list = ? FROM leased_proxy AS proxy " +
        "WHERE proxy.epoch = ? RETURNING leased_caches.epoch AS epoch",
    );
    this.#purge = prepare("DELETE FROM leased_applied WHERE at < ?");
  }

  takeOver(): Promise<number> {
    const { epoch } = this.#epoch.get() as { epoch: number };
    return Promise.resolve(epoch);
  }

  read(key: Uint8Array): Promise<Found> {
    return Promise.resolve(foundOf(this.#read.get(key) as unknown as SqliteRow));
  }

  write(
    key: Uint8Array,
    tokenId: number,
    epoch: number,
    edit: Edit,
  ): Promise<WriteResult> {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
    } catch (error) {
      return Promise.resolve({ kind: "failed", reason: reasonOf(error) });
    }
    try {
      const result = this.#writeInside(key, tokenId, epoch, edit);
      this.#database.exec(result.kind === "committed" ? "COMMIT" : "ROLLBACK");
      return Promise.resolve(result);
    } catch (error) {
      // SQLite has written nothing: a statement or the commit failed as a whole.
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      return Promise.resolve({ kind: "failed", reason: reasonOf(error) });
    }
  }

  #writeInside(
    key: Uint8Array,
    tokenId: number,
    epoch: number,
    edit: Edit,
  ): WriteResult {
    const found = foundOf(this.#read.get(key) as unknown as SqliteRow);
    if (found.epoch !== epoch) return { kind: "fenced", epoch: found.epoch };
    const made = changeOf(edit, found.row);
    if (made === null) return { kind: "refused", row: found.row };
    const [flags, data] = made === "delete" ? [0, null] : [made.flags, made.data];
    const { version } = this.#put.get(key, flags, data) as { version: number };
    this.#apply.run(tokenId, version, this.#nowUnixMs());
    return { kind: "committed", version };
  }

  outcome(tokenId: number): Promise<WriteOutcome> {
    const row = this.#applied.get(tokenId) as { version: number } | undefined;
    return Promise.resolve(
      row === undefined ? { kind: "notApplied" } : { kind: "committed", version: row.version },
    );
  }

  readNotes(): Promise<NotedCaches> {
    const { epoch, list } = this.#notes.get() as { epoch: number; list: string };
    return Promise.resolve({ epoch, caches: readNotes(list) });
  }

  noteCaches(caches: NotedCaches["caches"], epoch: number): Promise<NoteResult> {
    const row = this.#note.get(notesText(caches), epoch) as { epoch: number } | undefined;
    if (row !== undefined) return Promise.resolve({ kind: "noted", epoch: row.epoch });
    const found = this.#read.get(new Uint8Array()) as unknown as SqliteRow;
    return Promise.resolve({ kind: "fenced", epoch: found.epoch });
  }

  purgeApplied(beforeUnixMs: number): Promise<void> {
    this.#purge.run(beforeUnixMs);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#database.close();
    return Promise.resolve();
  }
}

function foundOf({ flags, data, version, epoch }: SqliteRow): Found {
  if (version === null) return { row: null, version: 0, epoch };
  if (data === null) return { row: null, version, epoch };
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  return { row: { flags: flags ?? 0, data: bytes, version }, version, epoch };
}
