import { foundOf, POSTPONED } from "../base/found.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import { kindOf, targetAt } from "../../process/file_kinds.ts";
import { DatabaseSync } from "node:sqlite";
import {
  type Backend,
  changeOf,
  type Found,
  GoneError,
  type PreparedViews,
  SQLITE_LOCK_SUFFIX,
  SQLITE_MEMORY,
  type Takeover,
  type Write,
  type WriteOutcome,
  type WriteResult,
} from "../base/backend.ts";
import { type ChangeStream } from "../base/changes.ts";
import { COLUMNS_ADVICE, sqliteSchema } from "../base/schema.ts";
import { END_OF_LOG, SqliteChanges } from "./changes.ts";
import { type SqliteRow, type SqliteStatements, sqliteStatements } from "./statements.ts";
import { encodingOf, followEnd, followSchema, requireUtf8 } from "./triggers.ts";
import { SqliteViews } from "./views.ts";
import { DEFAULT_TABLE, quotedNames, type TableNames } from "../base/table.ts";
import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";
import { Views } from "../views/view.ts";

/** Pauses between attempts to get the lock on the file, the first and the longest. */
const BUSY_PAUSE_MS = 1;
const BUSY_PAUSE_MS_MAX = 25;
/** SQLITE_CANTOPEN and SQLITE_READONLY. */
const UNWRITABLE = /unable to open|readonly/;
/** How long another process may hold the lock on the file before `check` fails. */
const CHECK_MS = 500;
/** SQLITE_BUSY and SQLITE_LOCKED, without the bits of the extended code. */
const BUSY_CODES = [5, 6];
const NO_KEY = "";
const GONE = "the file was deleted or replaced";
/** What SQLite appends to the path of a file for its log, and the log's index. */
const BESIDE = ["-wal", "-shm"];
/** Tables and indexes of a schema. */
const TABLES = 6;

/** Another process has kept the lock on the file. */
class LockedError extends Error {
  constructor(ms: number) {
    super(`another process has locked the file for ${ms} ms`);
  }
}

/**
 * SQLite in this process. Calls are synchronous, so a group is written in one step and its outcome is known. If the
 * process dies before that, the file tells the next one. A deleted row stays, with a null value, so that versions only
 * grow.
 */
export class SqliteBackend implements Backend {
  readonly commitsAside = false;
  readonly #database: DatabaseSync;
  readonly #statements: SqliteStatements;
  /** Of texts in the file. */
  readonly #encoding: string;
  readonly #hasExpiry: boolean;
  readonly #names: TableNames;
  /** Whether triggers note changes of the table. */
  #isFollowed = false;
  /** The log that was opened last. */
  #changes: SqliteChanges | null = null;
  /** Views whose tables have triggers. */
  #views = Views.NONE;
  #prepared: SqliteViews | null = null;
  readonly #path: string;
  readonly #fileId: string;
  /** The path without symbolic links, beside which SQLite keeps files. */
  readonly #realPath: string;
  readonly #besideId: string;
  readonly #timeoutMs: number;
  readonly #nowUnixMs: () => number;
  readonly #resultBytesMax: number;
  #lockFile: Deno.FsFile | undefined;
  #isLocked = false;

  /**
   * @param path The path of the database file.
   * @param timeoutMs How long a write waits for another process's lock on the file; longest time of a view's query.
   * @param resultBytesMax Most bytes of a view's value.
   * @param isReader Whether it is only read: no table is made, and no lock waited for.
   * @throws SQLite's error, with the remedy.
   */
  constructor(
    path: string,
    names: TableNames = DEFAULT_TABLE,
    timeoutMs = 5000,
    nowUnixMs = Date.now,
    resultBytesMax = Infinity,
    isReader = false,
  ) {
    this.#path = path;
    this.#names = names;
    this.#timeoutMs = timeoutMs;
    this.#nowUnixMs = nowUnixMs;
    this.#resultBytesMax = resultBytesMax;
    this.#database = isReader ? openReader(path) : openFile(path, names, timeoutMs);
    this.#encoding = encodingOf(this.#database);
    this.#fileId = fileId(path);
    this.#realPath = path === SQLITE_MEMORY ? path : Deno.realPathSync(path);
    this.#besideId = besideId(this.#realPath);
    this.#hasExpiry = (names.expiry ?? "") !== "";
    this.#checkColumns(names);
    this.#statements = preparedStatements(this.#database, names);
  }

  /** @throws When the table is an application's, without these columns. */
  #checkColumns({ table, key, value, version, flags, expiry = "" }: TableNames): void {
    const rows = this.#database.prepare("SELECT name FROM pragma_table_info(?)").all(table);
    const found = new Set(rows.map(({ name }) => name));
    const wanted = [key, value, version, flags, ...expiry === "" ? [] : [expiry]];
    const missing = wanted.filter((name) => !found.has(name));
    if (missing.length === 0) return;
    throw new Error(`table ${table} has no column ${missing.join(", ")}: ${COLUMNS_ADVICE}`);
  }

  /** The lock file ends with the process, not before: no clock is needed to know when an origin has ended. */
  lockOrigin(): Promise<boolean> {
    return Promise.resolve().then(() => {
      if (this.#path === SQLITE_MEMORY) return true;
      // By its real path: a symbolic link names the same database.
      const path = Deno.realPathSync(this.#path) + SQLITE_LOCK_SUFFIX;
      requireFile(path);
      this.#lockFile ??= Deno.openSync(path, { write: true, create: true });
      return this.#isLocked ||= this.#lockFile.tryLockSync(true);
    });
  }

  unlockOrigin(): Promise<void> {
    return Promise.resolve().then(() => {
      if (this.#isLocked) this.#lockFile?.unlockSync();
      this.#isLocked = false;
    });
  }

  async takeOver(): Promise<Takeover> {
    const { epoch } = await this.#whenFree(() => this.#statements.epoch.get()) as { epoch: number };
    const { ms } = this.#statements.servedByNodes.get() as { ms: number };
    // No origin before can note one any more.
    const { mark } = this.#statements.mark.get() as { mark: string };
    return { epoch, servedMs: this.#isLocked ? 0 : Infinity, nodesMs: ms, mark };
  }

  async noteNodes(servesMs: number, epoch: number): Promise<boolean> {
    return await this.#whenFree(() => this.#statements.noteNodes.get(servesMs, epoch)) !==
      undefined;
  }

  readEpoch(): Promise<number> {
    return Promise.resolve().then(() => {
      this.#checkFiles();
      return this.#found(NO_KEY).epoch;
    });
  }

  openChanges(): Promise<ChangeStream> {
    return Promise.resolve().then(() => {
      requireUtf8(this.#database);
      const changes = new SqliteChanges(
        this.#database,
        { whenFree: (act) => this.#whenFree(act), check: () => this.#checkFiles() },
        this.#names,
        () => this.#views,
      );
      // Tables may be others since.
      this.#prepared?.inspect();
      this.#isFollowed = true;
      this.#changes = changes;
      return changes;
    });
  }

  endOfLog(): Promise<bigint> {
    return Promise.resolve().then(() => {
      this.#checkFiles();
      this.#changes?.requireSchema();
      return this.#endOfLog();
    });
  }

  endOfLogOnDisk(): Promise<bigint> {
    return Promise.resolve().then(() => {
      this.#checkFiles();
      return this.#endOfLog();
    });
  }

  #endOfLog(): bigint {
    return BigInt(this.#database.prepare(END_OF_LOG).get()!["id"] as number);
  }

  async prepareChanges(views: Views): Promise<readonly string[]> {
    const schema = followSchema(this.#database, this.#names, views);
    await this.#whenFree(() => this.#database.exec(`BEGIN IMMEDIATE; ${schema} COMMIT`));
    return [];
  }

  async endChanges(): Promise<string | null> {
    const end = followEnd(this.#database);
    await this.#whenFree(() => this.#database.exec(`BEGIN IMMEDIATE; ${end} COMMIT`));
    return null;
  }

  prepareViews(views: Views): Promise<PreparedViews> {
    return Promise.resolve().then(() => {
      const prepared = SqliteViews.prepare({
        path: this.#path,
        names: this.#names,
        timeoutMs: this.#timeoutMs,
        bytesMax: this.#resultBytesMax,
        nowUnixMs: this.#nowUnixMs,
        checkFile: () => this.#checkFile(),
      }, views);
      this.#views = views;
      return this.#prepared = prepared;
    });
  }

  noteEnd(): Promise<void> {
    return Promise.resolve();
  }

  async noteMark(mark: string, epoch: number): Promise<boolean> {
    return await this.#whenFree(() => this.#statements.noteMark.get(mark, epoch)) !== undefined;
  }

  readMany(keys: readonly string[]): Promise<readonly Found[]> {
    return Promise.resolve().then(() => {
      this.#checkFile();
      return this.#foundMany(keys);
    });
  }

  #foundMany(keys: readonly string[]): readonly Found[] {
    if (keys.length === 1) return [this.#found(keys[0]!)];
    // One snapshot. Reads of a file in WAL mode wait for no writer.
    this.#database.exec("BEGIN");
    try {
      return keys.map((key) => this.#found(key));
    } finally {
      this.#database.exec("COMMIT");
    }
  }

  #found(key: string): Found {
    const row = this.#statements.read.get(latin1Bytes(key));
    return foundIn(row as unknown as SqliteRow, this.#encoding, this.#nowUnixMs());
  }

  async writeGroup(writes: readonly Write[], epoch: number): Promise<readonly WriteResult[]> {
    const timeoutMs = this.#timeoutMs;
    const beganMs = performance.now();
    const deadlines = writes.map(({ sinceMs = beganMs }) => sinceMs + timeoutMs);
    try {
      const write = (): readonly WriteResult[] => this.#writeTogether(writes, epoch);
      return await this.#whenFree(write, timeoutMs, Math.min(...deadlines));
    } catch (error) {
      // Nothing is written: the file is locked, or gone.
      const failed: WriteResult = { kind: "failed", reason: `${this.#path}: ${reasonOf(error)}` };
      // The other writes of the group are older or younger: each has its own time.
      const nowMs = error instanceof LockedError ? performance.now() : Infinity;
      return deadlines.map((deadlineMs) => deadlineMs <= nowMs ? failed : POSTPONED);
    }
  }

  async check(): Promise<void> {
    try {
      await this.#whenFree(() => this.#database.exec("BEGIN IMMEDIATE; ROLLBACK"), CHECK_MS);
    } catch (error) {
      throw new Error(`${this.#path}: ${reasonOf(error)}`);
    }
  }

  /** Calls `act`, again while another process has the lock on the file; reads continue during the wait. */
  async #whenFree<Result>(
    act: () => Result,
    timeoutMs = this.#timeoutMs,
    deadlineMs = performance.now() + timeoutMs,
  ): Promise<Result> {
    this.#checkFiles();
    for (let pauseMs = BUSY_PAUSE_MS;; pauseMs = Math.min(2 * pauseMs, BUSY_PAUSE_MS_MAX)) {
      try {
        return act();
      } catch (error) {
        if (!isBusy(error)) throw error;
        if (performance.now() >= deadlineMs) throw new LockedError(timeoutMs);
      }
      await pause(pauseMs);
    }
  }

  /** @throws GoneError The file has been deleted or replaced: writes would be lost, and reads are old. */
  #checkFile(): void {
    if (this.#fileId !== fileId(this.#path)) throw new GoneError(GONE);
  }

  /** As `#checkFile`; also the files beside it, which other programs would make anew and write to. @throws GoneError */
  #checkFiles(): void {
    this.#checkFile();
    if (this.#besideId !== besideId(this.#realPath)) throw new GoneError(GONE);
  }

  /**
   * Writes a group in one transaction, or in halves if that fails: one write that is refused fails alone. Within a
   * transaction, a savepoint would copy each page that a write changes.
   *
   * @throws SQLite's error when another process has the lock; nothing was written.
   */
  #writeTogether(writes: readonly Write[], epoch: number): readonly WriteResult[] {
    try {
      return this.#writeInside(writes, epoch);
    } catch (error) {
      // A full disk ends the transaction.
      const place = this.#database.isTransaction ? "" : `${this.#path}: `;
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      if (isBusy(error)) throw error;
      if (writes.length === 1) return [{ kind: "failed", reason: `${place}${reasonOf(error)}` }];
    }
    const middle = writes.length >> 1;
    const first = this.#writeHalf(writes.slice(0, middle), epoch);
    const second = writes.slice(middle);
    // One that is to go again must not be overtaken by a later write of its key.
    const isLocked = first.includes(POSTPONED);
    return [...first, ...isLocked ? second.map(() => POSTPONED) : this.#writeHalf(second, epoch)];
  }

  #writeHalf(writes: readonly Write[], epoch: number): readonly WriteResult[] {
    try {
      return this.#writeTogether(writes, epoch);
    } catch (error) {
      if (!isBusy(error)) throw error;
      return writes.map(() => POSTPONED);
    }
  }

  /** No await between beginning and end: reads use the same connection. */
  #writeInside(writes: readonly Write[], epoch: number): readonly WriteResult[] {
    this.#database.exec("BEGIN IMMEDIATE");
    const found = this.#found(NO_KEY);
    if (found.epoch !== epoch) {
      this.#database.exec("ROLLBACK");
      return writes.map(() => ({ kind: "fenced", epoch: found.epoch }));
    }
    if (this.#isFollowed) this.#database.exec("UPDATE leased_follow SET own = 1");
    const results = writes.map((write) => this.#writeOne(write));
    this.#noteApplied(writes, results);
    if (this.#isFollowed) this.#database.exec("UPDATE leased_follow SET own = 0");
    this.#database.exec("COMMIT");
    return results;
  }

  #writeOne({ key, edit }: Write): WriteResult {
    const row = typeof edit === "function" ? this.#found(key).row : null;
    const made = changeOf(edit, row);
    if (made === null) return { kind: "refused", row };
    const [flags, data] = made === "delete" ? [0, null] : [made.flags, made.data];
    const expires = made === "delete" ? 0 : made.expiresUnixSec ?? 0;
    const more = this.#hasExpiry ? [expires === 0 ? null : expires] : [];
    const { version } = this.#statements.put.get(latin1Bytes(key), flags, data, ...more) as {
      version: number;
    };
    return { kind: "committed", version };
  }

  /** Notes the tokens of the writes that are made, and their versions. */
  #noteApplied(writes: readonly Write[], results: readonly WriteResult[]): void {
    let applied = "";
    for (const [index, result] of results.entries()) {
      if (result.kind !== "committed") continue;
      applied += `${applied === "" ? "{" : ","}"${writes[index]!.tokenId}":${result.version}`;
    }
    if (applied !== "") this.#statements.apply.run(`${applied}}`, this.#nowUnixMs());
  }

  outcome(tokenId: number): Promise<WriteOutcome> {
    const row = this.#statements.applied.get(tokenId) as { version: number } | undefined;
    return Promise.resolve(
      row === undefined ? { kind: "notApplied" } : { kind: "committed", version: row.version },
    );
  }

  async purgeExpired(): Promise<void> {
    const { expire } = this.#statements;
    if (expire === null) return;
    await this.#whenFree(() => expire.run(Math.floor(this.#nowUnixMs() / 1000)));
  }

  async purgeApplied(beforeUnixMs: number): Promise<void> {
    await this.#whenFree(() => this.#statements.purge.run(beforeUnixMs));
  }

  close(): Promise<void> {
    this.#database.close();
    this.#lockFile?.close();
    return Promise.resolve();
  }
}

/** Checks that there is a file, or nothing: to open a FIFO would wait for ever. @throws Error */
function requireFile(path: string): void {
  const info = targetAt(path);
  if (info !== null && !info.isFile) throw new Error(`${path} is ${kindOf(info)}, not a file`);
}

/** Opens the file, and makes missing tables. @throws SQLite's error, with the remedy. */
function openFile(path: string, names: TableNames, timeoutMs: number): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    if (path !== SQLITE_MEMORY) requireFile(path);
    database = new DatabaseSync(path, { timeout: timeoutMs });
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    // Not again: a stand-by opens the file although the origin may be stopped inside a transaction.
    if (!hasTables(database, names)) {
      database.exec(`BEGIN IMMEDIATE; ${sqliteSchema(names)} COMMIT`);
    }
    requireBlobKeys(database, names);
    database.exec("PRAGMA busy_timeout = 0");
    return database;
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw new LockedError(timeoutMs);
    const reason = reasonOf(error);
    throw UNWRITABLE.test(reason)
      ? new Error(`${reason}; the folder must exist, and folder and file must be writable`)
      : error;
  }
}

/** Opens the file of an origin, which has made the tables. @throws SQLite's error. */
function openReader(path: string): DatabaseSync {
  requireFile(path);
  return new DatabaseSync(path, { readOnly: true, timeout: 0 });
}

/** @throws SQLite's error, with the remedy for keys that are not unique: a write would make a second row. */
function preparedStatements(database: DatabaseSync, names: TableNames): SqliteStatements {
  try {
    return sqliteStatements(database, names);
  } catch (error) {
    if (!reasonOf(error).startsWith("ON CONFLICT clause does not match")) throw error;
    const { table, key } = quotedNames(names);
    throw new Error(
      `column ${names.key} of table ${names.table} is not unique: ` +
        `CREATE UNIQUE INDEX … ON ${table} (${key}), or choose another --table`,
    );
  }
}

/** Checks that keys are of one storage class: a key of text is never equal to one of bytes. @throws Error */
function requireBlobKeys(database: DatabaseSync, names: TableNames): void {
  const { table, key } = quotedNames(names);
  const column = database.prepare("SELECT type FROM pragma_table_info(?) WHERE name = ?")
    .get(names.table, names.key);
  // A missing one is named with the others.
  if (column === undefined) return;
  // Blobs are the last in the order of values.
  const first = database.prepare(
    `SELECT typeof(${key}) AS type FROM ${table} ORDER BY ${key} LIMIT 1`,
  )
    .get();
  const declared = column["type"] as string;
  const stored = (first?.["type"] ?? "blob") as string;
  // As SQLite finds the affinity of a column.
  const isBlob = declared === "" ||
    (/blob/i.test(declared) && !/int|char|clob|text/i.test(declared));
  if (isBlob && stored === "blob") return;
  const what = isBlob ? `has keys of type ${stored}` : `is ${declared}`;
  throw new Error(
    `column ${names.key} of table ${names.table} ${what}: must be BLOB, with BLOBs in it; ` +
      "cache a table with other keys by a view (--views), or choose another --table",
  );
}

function hasTables(database: DatabaseSync, { table }: TableNames): boolean {
  const [row] = database.prepare(
    "SELECT count(*) AS count FROM sqlite_schema WHERE name IN " +
      "(?, 'leased_proxy', 'leased_nodes', 'leased_mark', 'leased_applied', 'leased_applied_at')",
  ).all(table);
  return row!["count"] === TABLES;
}

/** Returns a text that no other file at this path has; "": there is none, or an empty one. */
function fileId(path: string): string {
  const info = infoOf(path);
  return info === null || info.size === 0 ? "" : `${info.dev}:${info.ino}`;
}

/** Returns a text that no other files have which SQLite keeps beside this one as long as it is open. */
function besideId(path: string): string {
  return BESIDE.map((suffix) => infoOf(path + suffix)?.ino ?? "").join(" ");
}

function infoOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    return null;
  }
}

function isBusy(error: unknown): boolean {
  // The runtime's `exec` gives its errors no code.
  const code = (error as { errcode?: number }).errcode;
  return code === undefined ? / is locked/.test(reasonOf(error)) : BUSY_CODES.includes(code & 0xff);
}

function foundIn(
  { data, type, epoch, ...row }: SqliteRow,
  encoding: string,
  nowUnixMs: number,
): Found {
  const isUtf8 = data === null || type === "blob" || encoding === "UTF-8";
  const bytes = isUtf8 ? data : new TextEncoder().encode(new TextDecoder(encoding).decode(data));
  return foundOf({ ...row, data: bytes }, epoch, nowUnixMs);
}
