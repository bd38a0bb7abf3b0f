import {
  type Backend,
  type Change,
  changeOf,
  type Edit,
  type Found,
  type NotedCaches,
  type NoteResult,
  type PostgresSettings,
  type Row,
  type WriteOutcome,
  type WriteResult,
} from "../backend.ts";
import { notesText, readNotes } from "../notes.ts";
import { quotedNames, type TableNames } from "../table.ts";
import { Pool } from "./pool.ts";
import { type ColumnType, type ColumnTypes, prepareTables } from "./schema.ts";
import { isRefusal, type Parameter, type ResultRow, type Session } from "./session.ts";
import { reasonOf } from "../../../reason.ts";

/** Round trips of a write at most: overwrite, lock the row, write, commit. */
const STATEMENTS_IN_WRITE = 4;
/** Attempts of a write whose key another session inserts between its lookup and its insertion. */
const INSERTIONS_MAX = 5;
/** Time-outs that a takeover waits for the old proxy's writes; the server ends each write after one. */
const TAKE_OVER_PATIENCE = 3;
/** Pause between two checks of a transaction that still runs. */
const OUTCOME_POLL_MS = 50;

/** Appends the writer's tag to the session's name in pg_stat_activity until the transaction ends. */
const NAME_WRITER =
  "SELECT set_config('application_name', current_setting('application_name') || ' ' || $1, true)";

/** The lock keeps a takeover away until it is committed, as in a write. */
const NOTE = "WITH proxy AS (SELECT epoch FROM leased_proxy WHERE epoch = $2 FOR SHARE) " +
  "UPDATE leased_caches SET epoch = leased_caches.epoch + 1, list = $1 FROM proxy " +
  "RETURNING leased_caches.epoch AS epoch";

const NOT_UTF8 = { kind: "failed", reason: "the value is not UTF-8 without zero bytes" } as const;

/** The SQL statements of a backend. */
type Statements = ReturnType<typeof statementsFor>;

/**
 * PostgreSQL. A write holds a shared lock on the row that has the epoch until it is committed, and a takeover locks the
 * table of that row: it waits for writes of the old proxy, and later ones see the new epoch. A deleted row stays, with
 * a null for its value, so that versions only grow.
 */
export class PostgresBackend implements Backend {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  readonly #nowUnixMs: () => number;
  readonly #types: ColumnTypes;
  readonly #statements: Statements;
  /** Transactions without a reply to COMMIT, by token. */
  readonly #unanswered = new Map<number, string>();

  /** @param types The types of the table's columns. */
  constructor(
    pool: Pool,
    types: ColumnTypes,
    names: TableNames,
    { timeoutMs, nowUnixMs = Date.now }: PostgresSettings,
  ) {
    this.#pool = pool;
    this.#types = types;
    this.#statements = statementsFor(names);
    this.#timeoutMs = timeoutMs;
    this.#nowUnixMs = nowUnixMs;
  }

  async takeOver(): Promise<number> {
    const patienceMs = TAKE_OVER_PATIENCE * this.#timeoutMs;
    return await this.#pool.use(async (session) => {
      await session.query("BEGIN");
      try {
        await session.query(`SET LOCAL statement_timeout = ${patienceMs}`);
        // Share locks on a row have no queue: those of a busy proxy would keep an update waiting for ever.
        await session.query("LOCK TABLE leased_proxy IN EXCLUSIVE MODE");
        const [row] = await session.query(
          "UPDATE leased_proxy SET epoch = epoch + 1 RETURNING epoch",
        );
        if (!await session.commit()) throw new Error("the database rolled the takeover back");
        return Number(row!["epoch"]);
      } catch (error) {
        await rollBack(session);
        throw error;
      }
    }, patienceMs + this.#timeoutMs);
  }

  async read(key: Uint8Array): Promise<Found> {
    const [row] = await this.#pool.use(
      (session) => session.query(this.#statements.read, [keyOf(key, this.#types.key)]),
      this.#timeoutMs,
    );
    return foundOf(row!);
  }

  async write(
    key: Uint8Array,
    tokenId: number,
    epoch: number,
    edit: Edit,
    owner = "",
  ): Promise<WriteResult> {
    const stored = keyOf(key, this.#types.key);
    if (stored === null) {
      return { kind: "failed", reason: "the key is not UTF-8 without zero bytes" };
    }
    const write = { key: stored, tokenId, epoch, edit, owner };
    const progress = { transaction: "" };
    try {
      return await this.#pool.use(
        (session) => this.#writeWith(session, write, progress),
        STATEMENTS_IN_WRITE * this.#timeoutMs,
      );
    } catch (error) {
      // Before its COMMIT is sent, a transaction that loses its connection is rolled back.
      if (progress.transaction === "" || isRefusal(error)) {
        return { kind: "failed", reason: reasonOf(error) };
      }
      this.#unanswered.set(tokenId, progress.transaction);
      return { kind: "unknown", reason: reasonOf(error) };
    }
  }

  /** @param progress Gets the transaction's id when its COMMIT is about to be sent. */
  async #writeWith(
    session: Session,
    write: Write,
    progress: { transaction: string },
  ): Promise<WriteResult> {
    let result: WriteResult;
    try {
      const { edit } = write;
      const written = typeof edit === "function"
        ? await this.#lockAndWrite(session, write, begin(session, write))
        : await this.#overwrite(session, write, edit);
      if ("kind" in written) {
        result = written;
      } else {
        progress.transaction = written.transaction;
        if (await session.commit()) return { kind: "committed", version: written.version };
        result = { kind: "failed", reason: "the database rolled the transaction back" };
      }
    } catch (error) {
      await rollBack(session);
      throw error;
    }
    await rollBack(session);
    return result;
  }

  /** Writes the row whatever it is. One statement checks the epoch, writes, and notes the token as used. */
  async #overwrite(session: Session, write: Write, change: Change): Promise<WriteResult | Written> {
    const values = this.#valuesOf(change);
    if (values === null) return NOT_UTF8;
    const { key, tokenId, epoch } = write;
    const [, [row]] = await Promise.all([
      begin(session, write),
      session.query(this.#statements.overwrite, [
        key,
        ...values,
        tokenId,
        this.#nowUnixMs(),
        epoch,
      ]),
    ]);
    // No row: the proxy is fenced, or another session inserts the key.
    return row === undefined ? await this.#lockAndWrite(session, write, null) : writtenOf(row);
  }

  /**
   * Locks the epoch and the row, then writes the row.
   *
   * @param begun The beginning of the transaction; null: it has begun.
   */
  async #lockAndWrite(
    session: Session,
    write: Write,
    begun: Promise<void> | null,
  ): Promise<WriteResult | Written> {
    // Sent together. In this order: after the wait for the lock the row is read anew.
    const [, [proxy], rows] = await Promise.all([
      begun,
      session.query(this.#statements.lockEpoch, [write.epoch]),
      session.query(this.#statements.lockRow, [write.key]),
    ]);
    if (proxy === undefined) return { kind: "fenced", epoch: await readEpoch(session) };
    return await this.#writeRow(session, write, rows[0]);
  }

  /** Writes the row, and notes the token as used. */
  async #writeRow(
    session: Session,
    { key, tokenId, edit }: Write,
    first: ResultRow | undefined,
  ): Promise<WriteResult | Written> {
    let locked = first;
    for (let attempt = 0; attempt < INSERTIONS_MAX; attempt++) {
      const row = locked === undefined ? null : rowOf(locked);
      const made = changeOf(edit, row);
      if (made === null) return { kind: "refused", row };
      const values = this.#valuesOf(made);
      if (values === null) return NOT_UTF8;
      const statement = locked === undefined ? this.#statements.insert : this.#statements.update;
      const [written] = await session.query(statement, [
        key,
        ...values,
        tokenId,
        this.#nowUnixMs(),
      ]);
      if (written !== undefined) return writtenOf(written);
      // Another write has inserted the key since.
      [locked] = await session.query(this.#statements.lockRow, [key]);
    }
    return {
      kind: "failed",
      reason: "the row appears and vanishes: somebody else writes to the table",
    };
  }

  /** Returns the flags and the value of a change, as the table stores them; null: the column cannot hold the value. */
  #valuesOf(change: Change): readonly [flags: number, value: Parameter] | null {
    if (change === "delete") return [0, null];
    const value = storedAs(change.data, this.#types.value);
    return value === undefined ? null : [change.flags, value];
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
    const transaction = this.#unanswered.get(tokenId);
    if (transaction !== undefined && !await this.#hasEnded(session, transaction)) {
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

  /** Ends the session of a transaction that still runs, if the server permits it, and waits for its end for a while. */
  async #hasEnded(session: Session, transaction: string): Promise<boolean> {
    for (let waitedMs = 0;; waitedMs += OUTCOME_POLL_MS) {
      const [row] = await session.query("SELECT pg_xact_status($1::xid8) AS status", [transaction]);
      if (row!["status"] !== "in progress") return true;
      if (waitedMs >= this.#timeoutMs) return false;
      await session.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = xid($1::xid8) " +
          "AND usename = current_user",
        [transaction],
      );
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

  async purgeApplied(beforeUnixMs: number): Promise<void> {
    await this.#pool.use(
      (session) => session.query("DELETE FROM leased_applied WHERE at < $1", [beforeUnixMs]),
      this.#timeoutMs,
    );
  }

  async close(): Promise<void> {
    await this.#pool.close();
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
  const pool = new Pool({ url, timeoutMs: settings.timeoutMs }, settings.connectionsMax);
  try {
    const types = await pool.use(
      (session) => prepareTables(session, names),
      STATEMENTS_IN_WRITE * settings.timeoutMs,
    );
    return new PostgresBackend(pool, types, names, settings);
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/** A write, with its key converted to the column's type. */
interface Write {
  readonly key: Parameter;
  readonly tokenId: number;
  readonly epoch: number;
  readonly edit: Edit;
  readonly owner: string;
}

/** A row that is written, and not yet committed. */
interface Written {
  readonly version: number;
  /** The id of its transaction. */
  readonly transaction: string;
}

function writtenOf({ version, transaction }: ResultRow): Written {
  return { version: Number(version), transaction: String(transaction) };
}

// deno-lint-ignore explicit-function-return-type -- its keys are its type
function statementsFor(names: TableNames) {
  const { table, key, value, version, flags } = quotedNames(names);
  const columns = `row.${flags} AS flags, row.${value} AS data, row.${version} AS version`;
  /** Notes the token as used by the write before it; writes nothing when that wrote nothing. */
  const apply =
    `INSERT INTO leased_applied (token, version, at) SELECT $4, version, $5 FROM written ` +
    "RETURNING version, pg_current_xact_id()::text AS transaction";
  return {
    read: `SELECT ${columns}, proxy.epoch AS epoch FROM leased_proxy AS proxy ` +
      `LEFT JOIN ${table} AS row ON row.${key} = $1`,
    lockEpoch: "SELECT epoch FROM leased_proxy WHERE epoch = $1 FOR SHARE",
    lockRow: `SELECT ${columns} FROM ${table} AS row WHERE row.${key} = $1 FOR UPDATE`,
    insert: `WITH written AS (INSERT INTO ${table} (${key}, ${flags}, ${value}, ${version}) ` +
      `VALUES ($1, $2, $3, 1) ON CONFLICT (${key}) DO NOTHING RETURNING ${version} AS version) ${apply}`,
    update:
      `WITH written AS (UPDATE ${table} SET ${flags} = $2, ${value} = $3, ${version} = ${version} + 1 ` +
      `WHERE ${key} = $1 RETURNING ${version} AS version) ${apply}`,
    // The lock on the epoch comes first: without it, neither part has a row to write.
    overwrite: "WITH proxy AS (SELECT epoch FROM leased_proxy WHERE epoch = $6 FOR SHARE), " +
      `updated AS (UPDATE ${table} AS row SET ${flags} = $2, ${value} = $3, ${version} = row.${version} + 1 ` +
      `FROM proxy WHERE row.${key} = $1 RETURNING row.${version} AS version), ` +
      `inserted AS (INSERT INTO ${table} (${key}, ${flags}, ${value}, ${version}) ` +
      "SELECT $1, $2, $3, 1 FROM proxy WHERE NOT EXISTS (SELECT FROM updated) " +
      `ON CONFLICT (${key}) DO NOTHING RETURNING ${version} AS version), ` +
      `written AS (SELECT version FROM updated UNION ALL SELECT version FROM inserted) ${apply}`,
  };
}

/** Sends the beginning of a write's transaction. */
async function begin(session: Session, { owner }: Write): Promise<void> {
  await Promise.all([
    session.query("BEGIN ISOLATION LEVEL READ COMMITTED"),
    owner === "" ? null : session.query(NAME_WRITER, [owner]),
  ]);
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

function foundOf(result: ResultRow): Found {
  const epoch = Number(result["epoch"]);
  if (result["version"] === null) return { row: null, version: 0, epoch };
  return { row: rowOf(result), version: Number(result["version"]), epoch };
}

/** Returns the row of a result, or null if it was deleted. */
function rowOf({ flags, data, version }: ResultRow): Row | null {
  if (data === null) return null;
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data as Uint8Array;
  return {
    flags: Number(flags),
    data: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    version: Number(version),
  };
}

/** Returns a key as a value of its column, or null if the column cannot hold it. */
function keyOf(key: Uint8Array, type: ColumnType): Parameter {
  return storedAs(key, type) ?? null;
}

/** Returns bytes as a value of a column, or undefined if the column cannot hold them. */
function storedAs(bytes: Uint8Array, type: ColumnType): Uint8Array | string | undefined {
  if (type === "bytea") return bytes;
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
