import postgres from "npm:postgres@3.4.9";

/** A value that a statement takes. */
export type Parameter = Uint8Array | string | number | null;

/** A row of a result, by column. */
export type ResultRow = Readonly<Record<string, unknown>>;

/** How sessions are made. */
export interface SessionSettings {
  /** `postgres://user:password@host:port/database?sslmode=require`; other parameters go to the server. */
  readonly url: string;
  /** The server ends a statement, and a transaction that is idle for so long, in milliseconds. */
  readonly timeoutMs: number;
}

/** pg_current_xact_id() and pg_xact_status() are needed. */
const SERVER_VERSION_MIN = 130_000;
/** As sessions are listed in pg_stat_activity, unless the URL has another application_name. */
const APPLICATION_NAME = "leased-proxy";

/** The connection is gone: the server may or may not have executed the last statement. */
export class LostError extends Error {
  override readonly name = "LostError";
}

/**
 * One connection to PostgreSQL. The driver connects again by itself, which would continue a transaction outside of it;
 * a session that was lost once refuses every statement instead.
 */
export class Session {
  #isLost = false;
  readonly #sql: postgres.Sql;
  readonly #closed = Promise.withResolvers<void>();
  #isConnected = false;
  #lostReason = "the connection to the database was lost";

  private constructor({ url, timeoutMs }: SessionSettings) {
    this.#sql = postgres(url, {
      max: 1,
      max_lifetime: null,
      fetch_types: false,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      keep_alive: 15,
      onnotice: () => {},
      onclose: () => {
        this.#isLost = true;
        this.#closed.resolve();
      },
      connection: {
        application_name: APPLICATION_NAME,
        statement_timeout: timeoutMs,
        idle_in_transaction_session_timeout: timeoutMs,
      },
    });
  }

  /**
   * Connects, and checks that the server keeps what it commits.
   *
   * @throws LostError, or an error that names the setting of the server that forbids it.
   */
  static async open(settings: SessionSettings): Promise<Session> {
    const session = new Session(settings);
    try {
      const [server] = await session.query(
        "SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS standby, " +
          "current_setting('synchronous_commit') AS synchronous, current_setting('server_version') AS name",
      );
      const refusal = refusalOf(server!);
      if (refusal !== null) throw new Error(refusal);
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * Executes one statement.
   *
   * @throws LostError; what the server answers otherwise.
   */
  async query(text: string, parameters: readonly Parameter[] = []): Promise<readonly ResultRow[]> {
    return await this.#run(text, parameters);
  }

  /** Ends the transaction. @returns Whether it is committed; false: the server rolled it back. */
  async commit(): Promise<boolean> {
    return (await this.#run("COMMIT", [])).command === "COMMIT";
  }

  async #run(
    text: string,
    parameters: readonly Parameter[],
  ): Promise<postgres.RowList<postgres.Row[]>> {
    if (this.#isLost) throw new LostError(this.#lostReason);
    try {
      const rows = await this.#sql.unsafe(text, [...parameters], {
        prepare: parameters.length > 0,
      });
      this.#isConnected = true;
      return rows;
    } catch (error) {
      if (isRefusal(error)) {
        this.#isConnected = true;
        throw error;
      }
      this.abandon(error instanceof Error ? error.message : String(error));
      throw new LostError(this.#lostReason);
    }
  }

  /** Cuts the connection: statements in progress, and all later ones, throw LostError. */
  abandon(reason: string): void {
    if (!this.#isLost) this.#lostReason = reason;
    this.#isLost = true;
    void this.#sql.end({ timeout: 0 });
  }

  /** Resolves when the connection is closed. */
  async close(): Promise<void> {
    const wasConnected = this.#isConnected && !this.#isLost;
    this.#isLost = true;
    await this.#sql.end({ timeout: 0 });
    if (wasConnected) await this.#closed.promise;
  }
}

/** Errors after which the server closes the connection. */
const ENDING_SEVERITIES = ["FATAL", "PANIC"];

/** Whether the server has refused a statement, and the connection goes on. */
export function isRefusal(error: unknown): boolean {
  return error instanceof postgres.PostgresError && !ENDING_SEVERITIES.includes(error.severity);
}

/** Why a server cannot be used; null: it can. */
function refusalOf({ version, standby, synchronous, name }: ResultRow): string | null {
  if (version as number < SERVER_VERSION_MIN) {
    return `PostgreSQL ${name} is too old: 13 or newer is needed`;
  }
  if (standby) return "the server is a standby: name the primary, a standby may be behind";
  if (synchronous !== "off") return null;
  return "synchronous_commit is off: the server would forget committed rows in a crash, and caches would keep them; " +
    "set it to on (ALTER ROLE … SET synchronous_commit = on)";
}
