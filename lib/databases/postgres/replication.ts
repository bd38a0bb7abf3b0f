import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import postgres from "npm:postgres@3.4.9";
import { reasonOf } from "../../process/reason.ts";
import { dialSettings } from "./dial.ts";
import { LostError } from "./lost_error.ts";
import { openPrimary } from "./primary.ts";

/** Letters of messages over a replication connection. */
const LOG_DATA = 0x77;
const KEEPALIVE = 0x6b;
const STATUS = 0x72;
/** `w`, its position, the end of the log, a time. */
const DATA_HEADER_BYTES = 25;
const STATUS_BYTES = 34;
/** How long the server may take to end its log, or a statement after its time. */
const END_MS = 500;
/** Between 1970 and 2000, the epoch of the server's times. */
const EPOCH_UNIX_MS = Date.UTC(2000, 0, 1);

/** Settings on which the texts of values in the log depend, and with them keys. */
const TEXT_SETTINGS = { "bytea_output": "hex", DateStyle: "ISO", TimeZone: "UTC" };

/** How the server is reached, and the longest that a statement may take. */
export interface LogServer {
  readonly url: string;
  readonly timeoutMs: number;
}

/** What the server is asked to send. */
export interface LogPlace {
  readonly slot: string;
  readonly publication: string;
  /** Whether the plugin is asked for messages, which it knows from PostgreSQL 14 on. */
  readonly hasMessages: boolean;
}

/** A message of a replication connection. */
export interface LogReceiver {
  /** A message of the plugin. */
  message(bytes: Uint8Array): void;
  /** Everything before this position has been sent. */
  sentUpTo(position: bigint): void;
  /** The connection has ended. */
  ended(reason: string): void;
}

/**
 * A connection over which the server sends its log. The driver knows the protocol of copies in both directions, and its
 * own subscription makes a slot that ends with the connection; so this speaks the few messages itself.
 */
export class ReplicationConnection {
  readonly #sql: postgres.Sql;
  readonly #timeoutMs: number;
  #stream: Duplex | undefined;
  #isClosed = false;

  /** Opens one, and has the server send its log. @throws As `start`. */
  static async open(
    place: LogPlace & LogServer,
    receiver: LogReceiver,
  ): Promise<ReplicationConnection> {
    const connection = await ReplicationConnection.connect(place);
    await connection.start(place, receiver);
    return connection;
  }

  /**
   * Connects to the primary; if the URL has one host only, with the first query.
   *
   * @throws LostError; the server's error.
   */
  static async connect(server: LogServer): Promise<ReplicationConnection> {
    const { url, timeoutMs } = server;
    return await openPrimary(url, timeoutMs, async (oneUrl, limitMs) => {
      const connection = new ReplicationConnection({ url: oneUrl, timeoutMs });
      if (limitMs === timeoutMs) return connection;
      try {
        const { standby } = await connection.query("SELECT pg_is_in_recovery() AS standby");
        if (standby === false) return connection;
        throw new Error("the server is a standby");
      } catch (error) {
        await connection.close();
        throw error;
      }
    });
  }

  private constructor({ url, timeoutMs }: LogServer) {
    this.#timeoutMs = timeoutMs;
    this.#sql = postgres(withoutTextSettings(url), {
      ...dialSettings(url),
      max: 1,
      max_lifetime: null,
      idle_timeout: 0,
      fetch_types: false,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      keep_alive: 15,
      onnotice: () => {},
      connection: {
        application_name: "leased-follow",
        replication: "database",
        ...TEXT_SETTINGS,
        tcp_keepalives_idle: 2,
        tcp_keepalives_interval: 1,
        tcp_keepalives_count: 3,
      },
    });
  }

  /**
   * Executes one statement before `start`, in the session that will send the log.
   *
   * @returns Its first row.
   * @throws The server's error, also when the statement takes longer than `timeoutMs`. LostError: there was no answer.
   */
  async query(text: string): Promise<Readonly<Record<string, unknown>>> {
    return await this.#inTime(async () => {
      await this.#sql.unsafe(`SET statement_timeout = ${this.#timeoutMs}`);
      const [row] = await this.#sql.unsafe(text);
      return row!;
    });
  }

  /** A host that has vanished ends no statement. @throws LostError: there was no answer. */
  async #inTime<Result>(ask: () => Promise<Result>): Promise<Result> {
    const limitMs = this.#timeoutMs + END_MS;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void this.#sql.end({ timeout: 0 });
    }, limitMs);
    try {
      return await ask();
    } catch (error) {
      throw isLate ? new LostError(`the database did not answer within ${limitMs} ms`) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Has the server send its log from the position that the slot has confirmed. @throws As `query`. */
  async start(
    { slot, publication, hasMessages }: LogPlace,
    receiver: LogReceiver,
  ): Promise<void> {
    try {
      const messages = hasMessages ? ", messages 'true'" : "";
      const start =
        `START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names '${publication}'${messages})`;
      const stream = await this.#inTime(() =>
        this.#sql.unsafe(start).writable() as Promise<Duplex>
      );
      this.#stream = stream;
      stream.on("data", (chunk: Uint8Array) => this.#take(chunk, receiver));
      stream.on("error", (error) => receiver.ended(reasonOf(error)));
      stream.on("close", () => receiver.ended("the server has closed the connection"));
      stream.on("end", () => receiver.ended("the server has ended the log"));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  #take(chunk: Uint8Array, receiver: LogReceiver): void {
    if (this.#isClosed) return;
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (chunk[0] === LOG_DATA) receiver.message(chunk.subarray(DATA_HEADER_BYTES));
    else if (chunk[0] === KEEPALIVE) receiver.sentUpTo(view.getBigUint64(1));
  }

  /** Tells the server that everything before the position is applied. @param asks Whether it is to reply. */
  report(position: bigint, asks: boolean): void {
    if (this.#isClosed || this.#stream === undefined || this.#stream.destroyed) return;
    const status = Buffer.alloc(STATUS_BYTES);
    status[0] = STATUS;
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(position, at);
    status.writeBigInt64BE(BigInt(Date.now() - EPOCH_UNIX_MS) * 1000n, 25);
    status[33] = asks ? 1 : 0;
    this.#stream.write(status);
  }

  /** Reads no more until `resume`. */
  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  /** Ends the log and the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#stream !== undefined && !this.#stream.destroyed) await endOf(this.#stream);
    await this.#sql.end({ timeout: 0 });
  }
}

/** Ends a copy in both directions: without that, the server would log a connection that fails. */
async function endOf(stream: Duplex): Promise<void> {
  const closed = Promise.withResolvers<void>();
  const timer = setTimeout(closed.resolve, END_MS);
  stream.once("close", () => closed.resolve());
  stream.end();
  stream.resume();
  await closed.promise;
  clearTimeout(timer);
}

/** Returns a URL without parameters that would take the place of `TEXT_SETTINGS`. */
function withoutTextSettings(url: string): string {
  const names = Object.keys(TEXT_SETTINGS).map((name) => name.toLowerCase());
  const cleaned = new URL(url);
  const found = [...cleaned.searchParams.keys()].filter((name) =>
    names.includes(name.toLowerCase())
  );
  for (const name of found) cleaned.searchParams.delete(name);
  return found.length === 0 ? url : cleaned.href;
}
