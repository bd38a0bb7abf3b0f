import postgres from "npm:postgres@3.4.9";
import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";
import { dialSettings } from "./dial.ts";
import { LostError } from "./lost_error.ts";
import { openPrimary } from "./primary.ts";

/** A parameter of a statement. */
export type Parameter = Uint8Array | string | number | null;

/** A row of a result: values by column name. */
export type ResultRow = Readonly<Record<string, unknown>>;

/** The settings of every session. */
export interface SessionSettings {
  /**
   * `postgres://user:password@host:port/database?sslmode=require`, perhaps with several hosts, of which one is the
   * primary; other parameters go to the server.
   */
  readonly url: string;
  /** Milliseconds after which the server ends a statement, or an idle transaction. */
  readonly timeoutMs: number;
  /** Where names without a schema are looked for; left out: where the server's settings say. */
  readonly searchPath?: string;
}

/** A process of the server: its number, and when it began, because numbers are used again. */
export interface ServerProcess {
  readonly pid: number;
  readonly startedAt: string;
}

/** The first version with pg_current_xact_id() and pg_xact_status(). */
const SERVER_VERSION_MIN = 130_000;
/** The sessions' name in pg_stat_activity, unless the URL has another application_name. */
const APPLICATION_NAME = "leased-origin";

/** pgbouncer knows few settings of sessions. */
const POOLER_REFUSAL = /unsupported startup parameter/;
const POOLER =
  "a connection pooler such as pgbouncer stands before the database; an origin needs " +
  "connections of its own, give --db the address of PostgreSQL itself";

const asGiven = (value: string): string => value;
/**
 * Types whose parameters the driver would change: it sends every text for a boolean as false, a date as a time, and a
 * time without its microseconds.
 */
const AS_GIVEN = {
  boolean: { to: 16, from: [], serialize: asGiven, parse: asGiven },
  date: { to: 1082, from: [], serialize: asGiven, parse: asGiven },
  timestamp: { to: 1114, from: [], serialize: asGiven, parse: asGiven },
  timestamptz: { to: 1184, from: [], serialize: asGiven, parse: asGiven },
};

type DriverSettings = postgres.Options<Record<string, postgres.PostgresType>>;

/**
 * One connection to PostgreSQL. The driver reconnects by itself, and would execute the rest of a transaction outside
 * it. Therefore a session refuses every statement, and every other connection, once its connection was lost.
 */
export class Session {
  #isLost = false;
  readonly #sql: postgres.Sql;
  readonly #closed = Promise.withResolvers<void>();
  #isConnected = false;
  #process: ServerProcess | undefined;
  #searchPath = "";
  #lostReason = "the connection to the database was lost";

  /** @param connectMs How long the server may take to accept the connection. */
  private constructor({ url, timeoutMs, searchPath }: SessionSettings, connectMs: number) {
    this.#sql = postgres(url, {
      ...dialSettings(url, () => this.#checkLost()),
      max: 1,
      max_lifetime: null,
      fetch_types: false,
      connect_timeout: Math.ceil(connectMs / 1000),
      keep_alive: 15,
      // A wait before the driver connects again would outlast the session's end.
      backoff: () => 0,
      onnotice: () => {},
      types: AS_GIVEN,
      onclose: () => {
        this.#isLost = true;
        this.#closed.resolve();
      },
      connection: {
        application_name: APPLICATION_NAME,
        default_transaction_isolation: "read committed",
        // All statements find rows by an index. A plan that the server made while the table was new, and keeps, may
        // read all of the table instead; one that is compiled takes a hundred times as long.
        enable_seqscan: "off",
        jit: "off",
        statement_timeout: timeoutMs,
        idle_in_transaction_session_timeout: timeoutMs,
        ...searchPath === undefined ? {} : { search_path: searchPath },
        // The server ends the session of a host that has vanished, and its locks, within a few seconds.
        tcp_keepalives_idle: 2,
        tcp_keepalives_interval: 1,
        tcp_keepalives_count: 3,
      },
    } as DriverSettings);
  }

  /**
   * Connects to the primary, and checks that it does not lose commits.
   *
   * @throws LostError, or an error that names the server's unsuitable setting.
   */
  static open(settings: SessionSettings): Promise<Session> {
    const { url, timeoutMs } = settings;
    return openPrimary(
      ...[url, timeoutMs] as const,
      (url, limitMs) => Session.#openAt({ ...settings, url }, limitMs),
    );
  }

  static async #openAt(settings: SessionSettings, limitMs: number): Promise<Session> {
    const session = new Session(settings, limitMs);
    const late = `the database did not take a connection within ${Math.round(limitMs)} ms`;
    const timer = setTimeout(() => session.abandon(late), limitMs);
    try {
      // `set_config`: a change of the server's files changes it no more.
      const [server] = await session.query(
        "SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS standby, " +
          "set_config('synchronous_commit', current_setting('synchronous_commit'), false) AS synchronous, " +
          "current_setting('server_version') AS name, " +
          "current_setting('search_path') AS search_path, current_setting('enable_seqscan') AS seqscan, " +
          "pid, backend_start::text AS started_at FROM pg_stat_get_activity(pg_backend_pid())",
      );
      const refusal = refusalOf(server!);
      if (refusal !== null) throw new Error(refusal);
      session.#searchPath = server!["search_path"] as string;
      session.#process = {
        pid: Number(server!["pid"]),
        startedAt: server!["started_at"] as string,
      };
      return session;
    } catch (error) {
      await session.close();
      throw POOLER_REFUSAL.test(reasonOf(error))
        ? new Error(`${reasonOf(error)}: ${POOLER}`, { cause: error })
        : error;
    } finally {
      clearTimeout(timer);
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * Executes one statement.
   *
   * @throws LostError, or the server's error.
   */
  async query(text: string, parameters: readonly Parameter[] = []): Promise<readonly ResultRow[]> {
    return await this.#run(text, parameters);
  }

  /**
   * Asks the server of one statement, without executing it.
   *
   * @returns The numbers of its parameters' types, and the names of its columns.
   * @throws LostError, or the server's error.
   */
  async describe(text: string): Promise<{ parameterTypes: number[]; columns: string[] }> {
    const { types, columns } = await this.#guard(() => this.#sql.unsafe(text).describe());
    return { parameterTypes: types, columns: columns.map(({ name }) => name) };
  }

  /** Where names without a schema are looked for. */
  get searchPath(): string {
    return this.#searchPath;
  }

  /** Identifies the server's process behind this connection, also after its end. */
  get process(): ServerProcess {
    return this.#process!;
  }

  /** Commits the transaction. @returns False if the server rolled it back. */
  async commit(): Promise<boolean> {
    return (await this.#run("COMMIT", [])).command === "COMMIT";
  }

  /** Rolls the transaction back. A session that cannot is lost. */
  async rollBack(): Promise<void> {
    if (this.#isLost) return;
    try {
      await this.query("ROLLBACK");
    } catch (error) {
      this.abandon(reasonOf(error));
    }
  }

  async #run(
    text: string,
    parameters: readonly Parameter[],
  ): Promise<postgres.RowList<postgres.Row[]>> {
    return await this.#guard(() =>
      this.#sql.unsafe(text, [...parameters], { prepare: parameters.length > 0 })
    );
  }

  /** Awaits an answer of the server. @throws LostError, or the server's error. */
  async #guard<Answer>(ask: () => PromiseLike<Answer>): Promise<Answer> {
    this.#checkLost();
    try {
      const answer = await ask();
      this.#isConnected = true;
      return answer;
    } catch (error) {
      if (isRefusal(error)) {
        this.#isConnected = true;
        throw error;
      }
      this.abandon(reasonOf(error));
      throw new LostError(this.#lostReason);
    }
  }

  /** Drops the connection: statements in progress, and all later ones, throw LostError. */
  abandon(reason: string): void {
    if (!this.#isLost) this.#lostReason = reason;
    this.#isLost = true;
    void this.#sql.end({ timeout: 0 });
  }

  /** Closes the connection. */
  async close(): Promise<void> {
    const wasConnected = this.#isConnected && !this.#isLost;
    this.#isLost = true;
    await this.#sql.end({ timeout: 0 });
    if (wasConnected) await this.#closed.promise;
    // A timer with which the driver would have connected again fires before this one.
    else await pause(0);
  }

  /** @throws LostError */
  #checkLost(): void {
    if (this.#isLost) throw new LostError(this.#lostReason);
  }
}

/** Errors after which the server closes the connection. */
const ENDING_SEVERITIES = ["FATAL", "PANIC"];

/** Whether the server has refused a statement and keeps the connection open. */
export function isRefusal(error: unknown): boolean {
  return error instanceof postgres.PostgresError && !ENDING_SEVERITIES.includes(error.severity);
}

const LOCK_NOT_AVAILABLE = "55P03";
const QUERY_CANCELED = "57014";
const OBJECT_IN_USE = "55006";
const READ_ONLY_TRANSACTION = "25006";
const CHECK_VIOLATION = "23514";
/** An operator that does not exist, and parameters whose type is ambiguous or unknown. */
const TYPE_ERRORS = ["42883", "42P08", "42P18"];
/** Classes of errors that one row causes: its data, a constraint, a trigger, a limit, a right. */
const ROW_ERRORS = ["22", "23", "42", "44", "54", "P0"];

/** Returns the server's code of an error; "": it is none of the server's. */
function codeOf(error: unknown): string {
  return error instanceof postgres.PostgresError ? error.code : "";
}

/** Whether the server has refused a value of a statement: one that its encoding lacks, for example. */
export function isDataError(error: unknown): boolean {
  return codeOf(error).startsWith("22");
}

/** Whether the server has refused a text as no value of a type: of a domain, perhaps, that checks it. */
export function isNoValue(error: unknown): boolean {
  return isDataError(error) || codeOf(error) === CHECK_VIOLATION;
}

/** Whether the server finds no operator for the types of a statement, or no type for a parameter. */
export function isTypeError(error: unknown): boolean {
  return TYPE_ERRORS.includes(codeOf(error));
}

/** Whether the server has refused a statement for one of its rows. */
export function isRowError(error: unknown): boolean {
  return ROW_ERRORS.includes(codeOf(error).slice(0, 2));
}

/** Whether the server has waited for another session's lock as long as it should. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === LOCK_NOT_AVAILABLE;
}

/** Whether the server has refused a statement because another session uses the object. */
export function isInUse(error: unknown): boolean {
  return codeOf(error) === OBJECT_IN_USE;
}

/** Whether a statement, or its wait for a lock, has taken longer than it may. */
export function isTimeout(error: unknown): boolean {
  return isLockTimeout(error) || codeOf(error) === QUERY_CANCELED;
}

/** Whether there was no answer in time: the server has ended the statement, or the connection was given up. */
export function isLate(error: unknown): boolean {
  return error instanceof LostError || isTimeout(error);
}

/** Whether the server has refused a statement because it takes no writes now. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === READ_ONLY_TRANSACTION;
}

/** Returns the reason why a server cannot be used, or null if it can. */
function refusalOf({ version, standby, synchronous, name, seqscan }: ResultRow): string | null {
  if (version as number < SERVER_VERSION_MIN) {
    return `PostgreSQL ${name} is too old: 13 or newer is needed`;
  }
  if (seqscan !== "off") return `settings of sessions do not reach the server: ${POOLER}`;
  if (standby) return "the server is a standby: name the primary, a standby may be behind";
  if (synchronous !== "off") return null;
  return "synchronous_commit is off: the server would forget committed rows in a crash, and caches would keep them; " +
    "set it to on (ALTER ROLE … SET synchronous_commit = on)";
}
