import {
  type Backend,
  type Found,
  type PostgresSettings,
  type PreparedViews,
  type Takeover,
  type Write,
  type WriteOutcome,
  type WriteResult,
} from "../base/backend.ts";
import type { ChangeStream } from "../base/changes.ts";
import { POSTGRES_FOLLOW_END, postgresFollowSchema, WITHDRAW } from "./publication.ts";
import { PostgresChanges } from "./change_stream.ts";
import type { TableNames } from "../base/table.ts";
import { bytesOf, type ColumnTypes, storedAs } from "./columns.ts";
import { arrayOf } from "./group.ts";
import { Pool } from "./pool.ts";
import { prepareTables, readColumnTypes } from "./schema.ts";
import {
  isDataError,
  isLockTimeout,
  type ResultRow,
  Session,
  type SessionSettings,
} from "./session.ts";
import {
  flushToEnd,
  leftTrigger,
  type LogEnd,
  missingSetting,
  missingTrigger,
  readEnd,
  unboundedLog,
} from "./slot.ts";
import { foundIn, type Statements, statementsFor } from "./statements.ts";
import { PostgresViews, type ViewReading } from "./views.ts";
import { READ_ONLY, STATEMENTS_IN_WRITE, Writes } from "./writes.ts";
import { Views } from "../views/view.ts";
import { reasonOf } from "../../process/reason.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";

/** How long a takeover waits for the writes of the origin before; then it ends their sessions. */
const TAKE_OVER_GRACE_MS = 1000;
/** Sessions in which views are read. */
const VIEW_CONNECTIONS_MAX = 4;

/** Key of the advisory lock of the active origin: an arbitrary number, and that of the table, which is its schema's. */
const ORIGIN_LOCK = "(7305804::bigint << 32) | 'leased_proxy'::regclass::oid::bigint";
const ORIGIN = `SELECT epoch, pg_try_advisory_lock(${ORIGIN_LOCK}) AS is_locked, ` +
  "current_setting('transaction_read_only') = 'on' AS is_read_only FROM leased_proxy";
/** The session has no other lock of its kind, and this one as often as it was asked for. */
const UNLOCK = "SELECT pg_advisory_unlock_all()";
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

/** How the server is reached: names mean the same in all sessions, whatever its settings become. */
type Place = SessionSettings & { readonly searchPath: string };

/**
 * PostgreSQL. A write holds a shared lock on the row that has the epoch until it is committed, and a takeover locks the
 * table of that row: it waits for writes of the old origin, and later ones see the new epoch. A deleted row stays, with
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
  readonly #names: TableNames;
  readonly #timeoutMs: number;
  readonly #nowUnixMs: () => number;
  readonly commitsAside = true;
  readonly #hasTemporarySlot: boolean;
  #statements: Statements;
  readonly #writes: Writes;
  readonly #viewReading: ViewReading;
  /** Those whose tables are followed. */
  #views: PostgresViews;
  /** The log that was opened last. */
  #changes: PostgresChanges | null = null;
  /** What has to do with both: one after the other, so that the log is that of the views. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Whether the server refused writes when it was asked last. */
  #isReadOnly = false;

  /** @param types The types of the table's columns. */
  constructor(
    place: Place,
    types: ColumnTypes,
    names: TableNames,
    {
      connectionsMax,
      nowUnixMs = Date.now,
      resultBytesMax = Infinity,
      hasTemporarySlot = false,
    }: PostgresSettings,
  ) {
    this.#hasTemporarySlot = hasTemporarySlot;
    this.#pool = new Pool(place, connectionsMax);
    this.#originPool = new Pool(place, 1);
    this.#logPool = new Pool(place, 1);
    this.#viewPool = new Pool(place, VIEW_CONNECTIONS_MAX);
    this.#names = names;
    this.#statements = statementsFor(names, types);
    this.#writes = new Writes(this.#pool, this.#statements, nowUnixMs);
    this.#timeoutMs = place.timeoutMs;
    this.#nowUnixMs = nowUnixMs;
    this.#viewReading = { bytesMax: resultBytesMax, nowUnixMs };
    this.#views = PostgresViews.none(this.#viewPool, names, this.#viewReading);
  }

  async lockOrigin(): Promise<boolean> {
    return (await this.#askOrigin())["is_locked"] === true;
  }

  async readEpoch(): Promise<number> {
    return Number((await this.#askOrigin())["epoch"]);
  }

  /** Asks by the session that has the lock. After it was lost, another one takes the lock again. */
  async #askOrigin(): Promise<ResultRow> {
    const [row] = await this.#originPool.query(ORIGIN);
    this.#isReadOnly = row!["is_read_only"] === true;
    return row!;
  }

  async unlockOrigin(): Promise<void> {
    await this.#originPool.query(UNLOCK);
  }

  /** A node may serve no longer than its origin, whose time is noted by the takeover. */
  noteNodes(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async noteEnd(epoch: number): Promise<void> {
    await this.#pool.query(NOTE_END, [epoch]);
  }

  async noteMark(mark: string, epoch: number): Promise<boolean> {
    return (await this.#pool.query(NOTE_MARK, [mark, epoch])).length > 0;
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
    }, STATEMENTS_IN_WRITE);
  }

  /** @returns Null: other sessions have kept their locks for `lockMs` milliseconds. */
  async #takeOverWith(session: Session, rightMs: number, lockMs: number): Promise<Takeover | null> {
    await session.query("BEGIN");
    try {
      const statementMs = lockMs + this.#timeoutMs;
      await session.query(
        `SET LOCAL lock_timeout = ${lockMs}; SET LOCAL statement_timeout = ${statementMs}`,
      );
      // Share locks on a row have no queue: those of a busy origin would keep an update waiting for ever.
      await session.query("LOCK TABLE leased_proxy IN EXCLUSIVE MODE");
      const [row] = await session.query(TAKE_OVER, [rightMs]);
      if (!await session.commit()) throw new Error("the database rolled the takeover back");
      return {
        epoch: Number(row!["epoch"]),
        servedMs: Number(row!["served_ms"]),
        mark: row!["mark"] as string,
      };
    } catch (error) {
      await session.rollBack();
      if (isLockTimeout(error)) return null;
      throw error;
    }
  }

  async readMany(keys: readonly string[]): Promise<readonly Found[]> {
    try {
      return await this.#readTogether(keys);
    } catch (error) {
      if (keys.length === 1 || !isDataError(error)) throw error;
      return await this.#readEach(keys, error);
    }
  }

  /** Reads keys one by one after one of them has failed them all. @throws `failure`, if each fails. */
  async #readEach(keys: readonly string[], failure: unknown): Promise<readonly Found[]> {
    const found: (Found | string)[] = [];
    for (const key of keys) {
      try {
        found.push(...await this.#readTogether([key]));
      } catch (error) {
        if (!isDataError(error)) throw error;
        found.push(reasonOf(error));
      }
    }
    const answer = found.find((each) => typeof each !== "string");
    if (answer === undefined) throw failure;
    const { epoch } = answer;
    return found.map((each) =>
      typeof each === "string" ? { row: null, version: 0, epoch, problem: each } : each
    );
  }

  async #readTogether(keys: readonly string[]): Promise<readonly Found[]> {
    const { types, read } = this.#statements;
    const stored = arrayOf(keys.map((key) => storedAs(latin1Bytes(key), types.key) ?? null));
    const rows = await this.#pool.query(read, [stored]);
    const epoch = Number(rows[0]!["epoch"]);
    const byKey = new Map<string, Found>();
    const nowUnixMs = this.#nowUnixMs();
    for (const row of rows) {
      if (row["key"] !== null) byKey.set(latin1Text(bytesOf(row["key"])), foundIn(row, nowUnixMs));
    }
    return keys.map((key) => byKey.get(key) ?? { row: null, version: 0, epoch });
  }

  writeGroup(writes: readonly Write[], epoch: number): Promise<readonly WriteResult[]> {
    return this.#writes.write(writes, epoch);
  }

  outcome(tokenId: number): Promise<WriteOutcome> {
    return this.#writes.outcome(tokenId);
  }

  /** `readEpoch` has asked the server just now. The types of columns that have been altered count from here on. */
  async check(): Promise<void> {
    if (this.#isReadOnly) throw new Error(READ_ONLY);
    const types = await this.#pool.use((session) => readColumnTypes(session, this.#names));
    const { key, value } = this.#statements.types;
    if (types.key === key && types.value === value) return;
    this.#statements = statementsFor(this.#names, types);
    this.#writes.use(this.#statements);
  }

  openChanges(evicts: boolean): Promise<ChangeStream> {
    return this.#inTurn(async () => {
      // The log may have ended because another server has taken the address.
      this.#logPool.renew();
      this.#viewPool.renew();
      await this.#logPool.query(WITHDRAW);
      // Tables may be others since.
      const breaks = await this.#views.inspect();
      const changes = await PostgresChanges.open(
        this.#logPool,
        this.#names,
        evicts,
        this.#views,
        breaks,
        this.#hasTemporarySlot,
        this.#changes?.appliedTo ?? null,
      );
      // What is read after everything was emptied must come from this server.
      if (changes.gap !== null) this.#pool.renew();
      return this.#changes = changes;
    });
  }

  prepareViews(views: Views): Promise<PreparedViews> {
    return this.#inTurn(async () => {
      const prepared = await PostgresViews.prepare(
        this.#viewPool,
        views,
        this.#names,
        this.#viewReading,
      );
      await this.#changes?.followOthers(prepared);
      return this.#views = prepared;
    });
  }

  #inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(act);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  endOfLog(): Promise<bigint> {
    return this.#endBy(flushToEnd);
  }

  endOfLogOnDisk(): Promise<bigint> {
    return this.#endBy(readEnd);
  }

  async #endBy(read: (session: Session) => Promise<LogEnd>): Promise<bigint> {
    const changes = this.#changes;
    const { server, position } = await this.#pool.use(read);
    changes?.checkServer(server);
    return position;
  }

  async prepareChanges(views: Views): Promise<readonly string[]> {
    const schema = postgresFollowSchema(this.#names, views);
    return await this.#pool.use(async (session) => {
      await session.query(schema);
      const lack = await missingSetting(session) ?? await unboundedLog(session);
      return [lack, await missingTrigger(session)].filter((each) => each !== null);
    });
  }

  async endChanges(): Promise<string | null> {
    return await this.#pool.use(async (session) => {
      await session.query(POSTGRES_FOLLOW_END);
      return await leftTrigger(session);
    });
  }

  async purgeExpired(): Promise<void> {
    const { expire } = this.#statements;
    if (expire === "") return;
    const nowUnixSec = Math.floor(this.#nowUnixMs() / 1000);
    await this.#pool.query(expire, [nowUnixSec]);
  }

  async purgeApplied(beforeUnixMs: number): Promise<void> {
    await this.#pool.query("DELETE FROM leased_applied WHERE at < $1", [beforeUnixMs]);
  }

  async close(): Promise<void> {
    const pools = [this.#pool, this.#originPool, this.#logPool, this.#viewPool];
    await Promise.all(pools.map((pool) => pool.close()));
  }
}

/**
 * Connects, and makes missing tables if it is not only read.
 *
 * @throws When the server cannot be reached, may lose commits, or its tables do not fit.
 */
export async function openPostgres(
  url: string,
  names: TableNames,
  settings: PostgresSettings,
): Promise<PostgresBackend> {
  const { timeoutMs, isReader = false } = settings;
  const session = await Session.open({ url, timeoutMs });
  try {
    const types = await (isReader ? readColumnTypes : prepareTables)(session, names);
    const { searchPath } = session;
    return new PostgresBackend({ url, timeoutMs, searchPath }, types, names, settings);
  } finally {
    await session.close();
  }
}

export { openPostgresCatalog } from "./catalog.ts";
export { inspectPostgresViews } from "./views.ts";
