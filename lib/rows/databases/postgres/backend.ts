import {
  type Backend,
  type Found,
  hasExpired,
  type NotedCaches,
  type NoteResult,
  type PostgresSettings,
  type PreparedViews,
  PURGE_MAX,
  type Row,
  type Takeover,
  type Write,
  type WriteOutcome,
  type WriteResult,
} from "../backend.ts";
import type { ChangeStream } from "../changes.ts";
import { postgresFollowSchema } from "../publication.ts";
import { PostgresChanges } from "./change_stream.ts";
import { notesText, readNotes } from "../notes.ts";
import { quotedNames, type TableNames } from "../table.ts";
import { bytesOf, type ColumnTypes, storedAs } from "./columns.ts";
import { arrayOf, failed, WriteGroup } from "./group.ts";
import { Pool } from "./pool.ts";
import { prepareTables } from "./schema.ts";
import {
  isLockTimeout,
  isReadOnly,
  isRefusal,
  isRowError,
  type ResultRow,
  type ServerProcess,
  Session,
  type SessionSettings,
} from "./session.ts";
import { lackOf } from "./slot.ts";
import { PostgresViews } from "./views.ts";
import { Views } from "../../views/view.ts";
import { ViewMapping } from "../../views/view_mapping.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { reasonOf } from "../../../reason.ts";

/** Time-outs of statements that a transaction may take. */
const STATEMENTS_IN_WRITE = 4;
/** Attempts of a write whose key another session inserts between its lookup and its insertion. */
const INSERTIONS_MAX = 5;
/** Waits for a lock in the time of a statement; after one, a group continues without the locked rows. */
const LOCK_WAITS = 8;
/** How long a takeover waits for the writes of the origin before; then it ends their sessions. */
const TAKE_OVER_GRACE_MS = 1000;
/** Sessions in which views are read. */
const VIEW_CONNECTIONS_MAX = 4;
/** Pause between two checks of a process that still runs. */
const OUTCOME_POLL_MS = 50;

const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
/** `$2` bounds later waits for locks of the transaction, in milliseconds; 0: only the statement's time-out does. */
const LOCK_EPOCH = "SELECT epoch, set_config('lock_timeout', $2, true) FROM leased_proxy " +
  "WHERE epoch = $1 FOR SHARE";

/** Appends the writers' tags to the session's name in pg_stat_activity until the transaction ends. */
const NAME_WRITER =
  "SELECT set_config('application_name', current_setting('application_name') || ' ' || $1, true)";

/** The lock keeps a takeover away until it is committed, as in a write. */
const NOTE = "WITH proxy AS (SELECT epoch FROM leased_proxy WHERE epoch = $2 FOR SHARE) " +
  "UPDATE leased_caches SET epoch = leased_caches.epoch + 1, list = $1 FROM proxy " +
  "RETURNING leased_caches.epoch AS epoch";

/** Key of the advisory lock of the active origin: an arbitrary number, and that of the table, which is its schema's. */
const ORIGIN_LOCK = "(7305804::bigint << 32) | 'leased_proxy'::regclass::oid::bigint";
const ORIGIN = `SELECT epoch, pg_try_advisory_lock(${ORIGIN_LOCK}) AS is_locked, ` +
  "current_setting('transaction_read_only') = 'on' AS is_read_only FROM leased_proxy";
/** An origin that ends before it has waited for its predecessor leaves the longer time of both. */
const TAKE_OVER =
  "UPDATE leased_proxy SET epoch = epoch + 1, serves_ms = greatest(serves_ms, $1::bigint) " +
  "RETURNING epoch, (SELECT serves_ms FROM leased_proxy) AS served_ms, mark";
/** Every write has locked the table of the epoch. Only sessions of the same user may be ended. */
const END_WRITES =
  "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) " +
  "WHERE granted AND relation = 'leased_proxy'::regclass AND mode <> 'AccessShareLock' " +
  "AND pid <> pg_backend_pid() AND datname = current_database() AND usename = current_user";
const NOTE_END = "UPDATE leased_proxy SET serves_ms = 0 WHERE epoch = $1";
/** Waits for transactions of writes that have not answered: they have locked the row. */
const NOTE_MARK = "UPDATE leased_proxy SET mark = $1 WHERE epoch = $2 RETURNING mark";

const NO_MAPPING = new ViewMapping(Views.NONE);
const READ_ONLY = "the database is read only: set default_transaction_read_only to off";
const VANISHED = failed("the row appears and vanishes: another program writes to the table");

/** How the server is reached: names mean the same in all sessions, whatever its settings become. */
type Place = SessionSettings & { readonly searchPath: string };

/** The SQL statements of a backend. */
type Statements = ReturnType<typeof statementsFor>;

/**
 * PostgreSQL. A write holds a shared lock on the row that has the epoch until it is committed, and a takeover locks the
 * table of that row: it waits for writes of the old proxy, and later ones see the new epoch. A deleted row stays, with
 * a null for its value, so that versions only grow.
 */
export class PostgresBackend implements Backend {
  readonly #pool: Pool;
  /** One session, which keeps the lock of the active origin. */
  readonly #originPool: Pool;
  /** One session, for what belongs to the log. */
  readonly #logPool: Pool;
  /** So that a slow view keeps no row waiting. */
  readonly #viewPool: Pool;
  readonly #url: string;
  readonly #names: TableNames;
  readonly #timeoutMs: number;
  readonly #nowUnixMs: () => number;
  readonly #types: ColumnTypes;
  readonly #statements: Statements;
  #views: PostgresViews | null = null;
  /** Whether the server refused writes when it was asked last. */
  #isReadOnly = false;
  /** The server's processes that have not answered a COMMIT, by token. */
  readonly #unanswered = new Map<number, ServerProcess>();

  /** @param types The types of the table's columns. */
  constructor(
    place: Place,
    types: ColumnTypes,
    names: TableNames,
    { connectionsMax, nowUnixMs = Date.now }: PostgresSettings,
  ) {
    const { url, timeoutMs } = place;
    this.#pool = new Pool(place, connectionsMax);
    this.#originPool = new Pool(place, 1);
    this.#logPool = new Pool(place, 1);
    this.#viewPool = new Pool(place, VIEW_CONNECTIONS_MAX);
    this.#url = url;
    this.#names = names;
    this.#types = types;
    this.#statements = statementsFor(names, types);
    this.#timeoutMs = timeoutMs;
    this.#nowUnixMs = nowUnixMs;
  }

  async lockOrigin(): Promise<boolean> {
    return (await this.#askOrigin())["is_locked"] === true;
  }

  async readEpoch(): Promise<number> {
    return Number((await this.#askOrigin())["epoch"]);
  }

  /** Asks by the session that has the lock. After it was lost, another one takes the lock again. */
  async #askOrigin(): Promise<ResultRow> {
    const [row] = await this.#originPool.use((session) => session.query(ORIGIN), this.#timeoutMs);
    this.#isReadOnly = row!["is_read_only"] === true;
    return row!;
  }

  /** A node may serve no longer than its origin, whose time is noted by the takeover. */
  noteNodes(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async noteEnd(epoch: number): Promise<void> {
    await this.#pool.use((session) => session.query(NOTE_END, [epoch]), this.#timeoutMs);
  }

  async noteMark(mark: string, epoch: number): Promise<boolean> {
    const rows = await this.#pool.use(
      (session) => session.query(NOTE_MARK, [mark, epoch]),
      this.#timeoutMs,
    );
    return rows.length > 0;
  }

  async takeOver(rightMs = 0): Promise<Takeover> {
    const timeoutMs = this.#timeoutMs;
    const graceMs = Math.min(TAKE_OVER_GRACE_MS, timeoutMs);
    return await this.#pool.use(async (session) => {
      const taken = await this.#takeOverWith(session, rightMs, graceMs);
      if (taken !== null) return taken;
      // No time-out ends a statement whose rest the server awaits from an origin that is stopped.
      await session.query(END_WRITES);
      const again = await this.#takeOverWith(session, rightMs, timeoutMs);
      if (again !== null) return again;
      throw new Error(`other sessions have kept their locks on leased_proxy for ${timeoutMs} ms`);
    }, STATEMENTS_IN_WRITE * timeoutMs);
  }

  /** @returns Null: other sessions have kept their locks for `lockMs` milliseconds. */
  async #takeOverWith(session: Session, rightMs: number, lockMs: number): Promise<Takeover | null> {
    await session.query("BEGIN");
    try {
      const statementMs = lockMs + this.#timeoutMs;
      await session.query(
        `SET LOCAL lock_timeout = ${lockMs}; SET LOCAL statement_timeout = ${statementMs}`,
      );
      // Share locks on a row have no queue: those of a busy proxy would keep an update waiting for ever.
      await session.query("LOCK TABLE leased_proxy IN EXCLUSIVE MODE");
      const [row] = await session.query(TAKE_OVER, [rightMs]);
      if (!await session.commit()) throw new Error("the database rolled the takeover back");
      return {
        epoch: Number(row!["epoch"]),
        servedMs: Number(row!["served_ms"]),
        mark: row!["mark"] as string,
      };
    } catch (error) {
      await rollBack(session);
      if (isLockTimeout(error)) return null;
      throw error;
    }
  }

  async readMany(keys: readonly Uint8Array[]): Promise<readonly Found[]> {
    const stored = arrayOf(keys.map((key) => storedAs(key, this.#types.key) ?? null));
    const rows = await this.#pool.use(
      (session) => session.query(this.#statements.read, [stored]),
      this.#timeoutMs,
    );
    const epoch = Number(rows[0]!["epoch"]);
    const byKey = new Map<string, Found>();
    const nowUnixMs = this.#nowUnixMs();
    for (const row of rows) {
      if (row["key"] !== null) byKey.set(latin1Text(bytesOf(row["key"])), foundOf(row, nowUnixMs));
    }
    return keys.map((key) => byKey.get(latin1Text(key)) ?? { row: null, version: 0, epoch });
  }

  async writeGroup(
    writes: readonly Write[],
    epoch: number,
    attempts = INSERTIONS_MAX,
    lockWaits = LOCK_WAITS,
  ): Promise<readonly WriteResult[]> {
    const group = new WriteGroup(writes, this.#types);
    const progress: Progress = { process: null };
    try {
      const left = await this.#pool.use(
        (session) => this.#writeWith(session, group, epoch, progress),
        STATEMENTS_IN_WRITE * this.#timeoutMs,
      );
      if ("kind" in left) return group.end(left);
      if (left.length === 0 || attempts === 1) return group.end(VANISHED);
      // Another session has inserted their keys since.
      const again = left.map((at) => writes[at]!);
      return group.place(left, await this.writeGroup(again, epoch, attempts - 1, lockWaits));
    } catch (error) {
      if (writes.length > 1 && isRowError(error)) {
        return await this.#writeHalves(writes, epoch, lockWaits);
      }
      if (writes.length > 1 && isLockTimeout(error) && lockWaits > 1) {
        return await this.#writeUnlocked(writes, epoch, lockWaits - 1);
      }
      const reason = isReadOnly(error) ? READ_ONLY : reasonOf(error);
      // Before its COMMIT is sent, a transaction that loses its connection is rolled back.
      if (progress.process === null || isRefusal(error)) return group.end(failed(reason));
      for (const { tokenId } of writes) this.#unanswered.set(tokenId, progress.process);
      return group.end({ kind: "unknown", reason });
    }
  }

  /** Writes a group of which one write is refused: the others succeed. */
  async #writeHalves(
    writes: readonly Write[],
    epoch: number,
    lockWaits: number,
  ): Promise<readonly WriteResult[]> {
    const middle = writes.length >> 1;
    return [
      ...await this.writeGroup(writes.slice(0, middle), epoch, INSERTIONS_MAX, lockWaits),
      ...await this.writeGroup(writes.slice(middle), epoch, INSERTIONS_MAX, lockWaits),
    ];
  }

  /** Writes a group in two, at the same time: the rows that another session has locked, and the others. */
  async #writeUnlocked(
    writes: readonly Write[],
    epoch: number,
    lockWaits: number,
  ): Promise<readonly WriteResult[]> {
    const keys = arrayOf(writes.map(({ key }) => storedAs(key, this.#types.key) ?? null));
    const rows = await this.#pool.use(
      (session) => session.query(this.#statements.lockedRows, [keys]),
      this.#timeoutMs,
    );
    const locked = new Set(rows.map((row) => latin1Text(bytesOf(row["key"]))));
    const isLocked = ({ key }: Write): boolean => locked.has(latin1Text(key));
    const parts = [writes.filter(isLocked), writes.filter((write) => !isLocked(write))];
    // A row that another session inserts is locked, and cannot be seen.
    if (locked.size === 0) return await this.#writeHalves(writes, epoch, lockWaits);
    const results = await Promise.all(
      parts.map(async (part) =>
        part.length === 0 ? [] : [...await this.writeGroup(part, epoch, INSERTIONS_MAX, lockWaits)]
      ),
    );
    return writes.map((write) => results[isLocked(write) ? 0 : 1]!.shift()!);
  }

  /**
   * Executes a transaction: its statements are sent together, with its COMMIT. Those that lock and read the rows, for
   * changes that depend on them, are sent before.
   *
   * @returns The result of all writes; or the indexes of those that wrote nothing.
   */
  async #writeWith(
    session: Session,
    group: WriteGroup,
    epoch: number,
    progress: Progress,
  ): Promise<WriteResult | number[]> {
    const { owners } = group;
    // A write alone waits as long as its statement may.
    const lockTimeout = group.writes.length === 1
      ? "0"
      : `${Math.ceil(this.#timeoutMs / LOCK_WAITS)}`;
    const hasBegun = group.isComputed || owners !== "";
    const begun = hasBegun ? [session.query(BEGIN)] : [];
    if (owners !== "") begun.push(session.query(NAME_WRITER, [owners]));
    try {
      if (group.isComputed) {
        // In this order: after the wait for the lock the rows are read again.
        const [[proxy], rows] = await Promise.all([
          session.query(LOCK_EPOCH, [epoch, lockTimeout]),
          session.query(this.#statements.lockRows, [group.keys]),
          ...begun.splice(0),
        ]);
        if (proxy === undefined) {
          const fenced = { kind: "fenced", epoch: await readEpoch(session) } as const;
          await rollBack(session);
          return fenced;
        }
        for (const row of rows) group.found(bytesOf(row["key"]), foundOf(row, this.#nowUnixMs()));
      }
      group.decide();
      const parameters = group.parameters(
        epoch,
        this.#nowUnixMs(),
        lockTimeout,
        this.#statements.expire !== "",
      );
      if (parameters === null) {
        if (hasBegun) await rollBack(session);
        return group.committed(new Map());
      }
      progress.process = session.process;
      const [rows, isCommitted] = await Promise.all([
        session.query(this.#statements.write, parameters),
        hasBegun ? session.commit() : true,
        ...begun,
      ]);
      if (!isCommitted) return failed("the database rolled the transaction back");
      if (rows.length === 0) {
        const now = await readEpoch(session);
        if (now !== epoch) return { kind: "fenced", epoch: now };
      }
      const versions = rows.map((row) => [Number(row["token"]), Number(row["version"])] as const);
      return group.committed(new Map(versions));
    } catch (error) {
      if (hasBegun) await rollBack(session);
      throw error;
    }
  }

  /** `readEpoch` has asked the server just now. */
  check(): Promise<void> {
    return this.#isReadOnly ? Promise.reject(new Error(READ_ONLY)) : Promise.resolve();
  }

  async outcome(tokenId: number): Promise<WriteOutcome> {
    try {
      return await this.#pool.use(
        (session) => this.#outcomeWith(session, tokenId),
        STATEMENTS_IN_WRITE * this.#timeoutMs,
      );
    } catch (error) {
      return { kind: "unknown", reason: reasonOf(error) };
    }
  }

  async #outcomeWith(session: Session, tokenId: number): Promise<WriteOutcome> {
    const process = this.#unanswered.get(tokenId);
    if (process !== undefined && !await this.#hasEnded(session, process)) {
      return { kind: "unknown", reason: "the transaction still runs" };
    }
    const [row] = await session.query("SELECT version FROM leased_applied WHERE token = $1", [
      tokenId,
    ]);
    this.#unanswered.delete(tokenId);
    return row === undefined
      ? { kind: "notApplied" }
      : { kind: "committed", version: Number(row["version"]) };
  }

  /** Ends the process that got an unanswered transaction, and waits for its end for a while. */
  async #hasEnded(session: Session, { pid, startedAt }: ServerProcess): Promise<boolean> {
    for (let waitedMs = 0;; waitedMs += OUTCOME_POLL_MS) {
      // One that has begun later has the same number, and another connection.
      const rows = await session.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity($1) WHERE backend_start = $2::timestamptz",
        [pid, startedAt],
      );
      if (rows.length === 0) return true;
      if (waitedMs >= this.#timeoutMs) return false;
      await new Promise((resolve) => setTimeout(resolve, OUTCOME_POLL_MS));
    }
  }

  async readNotes(): Promise<NotedCaches> {
    const [row] = await this.#pool.use(
      (session) => session.query("SELECT epoch, list FROM leased_caches"),
      this.#timeoutMs,
    );
    return { epoch: Number(row!["epoch"]), caches: readNotes(row!["list"] as string) };
  }

  async noteCaches(caches: NotedCaches["caches"], epoch: number): Promise<NoteResult> {
    return await this.#pool.use(async (session) => {
      const [row] = await session.query(NOTE, [notesText(caches), epoch]);
      if (row !== undefined) return { kind: "noted", epoch: Number(row["epoch"]) };
      return { kind: "fenced", epoch: await readEpoch(session) };
    }, this.#timeoutMs);
  }

  async openChanges(evicts: boolean): Promise<ChangeStream> {
    // Tables may be others since.
    await this.#views?.inspect();
    return await PostgresChanges.open(
      this.#logPool,
      this.#url,
      this.#names,
      this.#timeoutMs,
      evicts,
      () => this.#views?.mapping ?? NO_MAPPING,
    );
  }

  async prepareViews(views: Views): Promise<PreparedViews> {
    const prepared = new PostgresViews(
      this.#viewPool,
      views,
      this.#names,
      this.#timeoutMs,
      this.#nowUnixMs,
    );
    await prepared.inspect();
    return this.#views = prepared;
  }

  async endOfLog(): Promise<bigint> {
    const [row] = await this.#pool.use(
      (session) => session.query("SELECT pg_current_wal_lsn() - '0/0' AS position"),
      this.#timeoutMs,
    );
    return BigInt(row!["position"] as string);
  }

  async prepareChanges(views: Views): Promise<string | null> {
    const schema = postgresFollowSchema(this.#names, views);
    return await this.#pool.use(async (session) => {
      await session.query(schema);
      return await lackOf(session);
    }, this.#timeoutMs);
  }

  async purgeExpired(): Promise<void> {
    const { expire } = this.#statements;
    if (expire === "") return;
    const nowUnixSec = Math.floor(this.#nowUnixMs() / 1000);
    await this.#pool.use((session) => session.query(expire, [nowUnixSec]), this.#timeoutMs);
  }

  async purgeApplied(beforeUnixMs: number): Promise<void> {
    await this.#pool.use(
      (session) => session.query("DELETE FROM leased_applied WHERE at < $1", [beforeUnixMs]),
      this.#timeoutMs,
    );
  }

  async close(): Promise<void> {
    const pools = [this.#pool, this.#originPool, this.#logPool, this.#viewPool];
    await Promise.all(pools.map((pool) => pool.close()));
  }
}

/**
 * Connects, and makes missing tables.
 *
 * @throws When the server cannot be reached, may lose commits, or its tables do not fit.
 */
export async function openPostgres(
  url: string,
  names: TableNames,
  settings: PostgresSettings,
): Promise<PostgresBackend> {
  const { timeoutMs } = settings;
  const session = await Session.open({ url, timeoutMs });
  try {
    const types = await prepareTables(session, names);
    const { searchPath } = session;
    return new PostgresBackend({ url, timeoutMs, searchPath }, types, names, settings);
  } finally {
    await session.close();
  }
}

export { inspectPostgresViews } from "./views.ts";

/** How far a transaction has come. */
interface Progress {
  /** The process that has got its COMMIT; null: none has. */
  process: ServerProcess | null;
}

// deno-lint-ignore explicit-function-return-type -- its keys are its type
function statementsFor(names: TableNames, types: ColumnTypes) {
  const { table, key, value, version, flags, expiry } = quotedNames(names);
  const [ofRow, ofInput, update, list, given] = expiry === "" ? ["NULL", "", "", "", ""] : [
    `row.${expiry}`,
    ", $12::bigint[]",
    `, ${expiry} = nullif(input.expiry, 0)`,
    `, ${expiry}`,
    ", nullif(expiry, 0)",
  ];
  const named = expiry === "" ? "" : ", expiry";
  const columns =
    `row.${key} AS key, row.${flags} AS flags, row.${value} AS data, row.${version} AS version, ` +
    `${ofRow} AS expires`;
  const rowOfTable = `(${key}, ${flags}, ${value}, ${version}${list})`;
  return {
    read: `SELECT ${columns}, proxy.epoch AS epoch FROM leased_proxy AS proxy ` +
      `LEFT JOIN ${table} AS row ON row.${key} = ANY ($1::${types.key}[])`,
    lockRows: `SELECT ${columns}, 0 AS epoch FROM ${table} AS row ` +
      `WHERE row.${key} = ANY ($1::${types.key}[]) ORDER BY row.${key} FOR UPDATE`,
    lockedRows: `WITH free AS MATERIALIZED (SELECT row.${key} AS key FROM ${table} AS row ` +
      `WHERE row.${key} = ANY ($1::${types.key}[]) FOR UPDATE SKIP LOCKED) ` +
      `SELECT row.${key} AS key FROM ${table} AS row WHERE row.${key} = ANY ($1::${types.key}[]) ` +
      `AND NOT EXISTS (SELECT FROM free WHERE free.key = row.${key})`,
    expire: expiry === "" ? "" : `UPDATE ${table} SET ${flags} = 0, ${value} = NULL, ` +
      `${expiry} = NULL, ${version} = ${version} + 1 WHERE ${key} IN (SELECT ${key} FROM ${table} ` +
      `WHERE ${expiry} > 0 AND ${expiry} <= $1 LIMIT ${PURGE_MAX} FOR UPDATE SKIP LOCKED)`,
    // The lock on the epoch comes first: without it, no other part has a row. `count` is the number of a key's writes.
    write: `WITH proxy AS (${LOCK_EPOCH.replace("$2", "$11")}), ` +
      `input AS (SELECT input.* FROM unnest($2::${types.key}[], $3::bigint[], $4::${types.value}[], $5::bigint[], $10::boolean[]${ofInput}) ` +
      `WITH ORDINALITY AS input (key, flags, value, count, is_new${named}, position), proxy), ` +
      `locked AS MATERIALIZED (SELECT row.${key} AS key FROM ${table} AS row, proxy ` +
      `WHERE row.${key} = ANY ($2) ORDER BY row.${key} FOR UPDATE OF row), ` +
      `updated AS (UPDATE ${table} AS row SET ${flags} = input.flags, ${value} = input.value${update}, ` +
      `${version} = row.${version} + input.count FROM input, locked ` +
      `WHERE row.${key} = input.key AND locked.key = input.key AND NOT input.is_new ` +
      `RETURNING input.key AS key, row.${version} AS version), ` +
      `inserted AS (INSERT INTO ${table} ${rowOfTable} SELECT key, flags, value, count${given} FROM input ` +
      `WHERE NOT EXISTS (SELECT FROM updated WHERE updated.key = input.key) ORDER BY key ` +
      `ON CONFLICT (${key}) DO NOTHING RETURNING ${key} AS key, ${version} AS version), ` +
      "written AS (SELECT position, version FROM (SELECT * FROM updated UNION ALL SELECT * FROM inserted) AS row " +
      "JOIN input USING (key)) " +
      "INSERT INTO leased_applied (token, version, at) SELECT used.token, version - used.behind, $9 " +
      "FROM unnest($6::bigint[], $7::bigint[], $8::bigint[]) AS used (token, position, behind) " +
      "JOIN written USING (position) RETURNING token, version",
  };
}

async function readEpoch(session: Session): Promise<number> {
  const [row] = await session.query("SELECT epoch FROM leased_proxy");
  return Number(row!["epoch"]);
}

async function rollBack(session: Session): Promise<void> {
  if (session.isLost) return;
  try {
    await session.query("ROLLBACK");
  } catch (error) {
    session.abandon(reasonOf(error));
  }
}

function foundOf(result: ResultRow, nowUnixMs: number): Found {
  const epoch = Number(result["epoch"]);
  if (result["version"] === null) return { row: null, version: 0, epoch };
  return { row: rowOf(result, nowUnixMs), version: Number(result["version"]), epoch };
}

/** Returns the row of a result, or null if it was deleted, or has expired. */
function rowOf({ flags, data, version, expires }: ResultRow, nowUnixMs: number): Row | null {
  const expiresUnixSec = Number(expires ?? 0);
  if (data === null || hasExpired(expiresUnixSec, nowUnixMs)) return null;
  const row = { flags: Number(flags), data: bytesOf(data), version: Number(version) };
  return expiresUnixSec === 0 ? row : { ...row, expiresUnixSec };
}
