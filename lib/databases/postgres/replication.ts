import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import postgres from "npm:postgres@3.4.9";
import { reasonOf } from "../../process/reason.ts";
import { dialSettings } from "./dial.ts";

/** Letters of messages over a replication connection. */
const LOG_DATA = 0x77;
const KEEPALIVE = 0x6b;
const STATUS = 0x72;
/** `w`, its position, the end of the log, a time. */
const DATA_HEADER_BYTES = 25;
const STATUS_BYTES = 34;
/** How long the server may take to end its log. */
const END_MS = 500;
/** Between 1970 and 2000, the epoch of the server's times. */
const EPOCH_UNIX_MS = Date.UTC(2000, 0, 1);

/** Settings on which the texts of values in the log depend, and with them keys. */
const TEXT_SETTINGS = { "bytea_output": "hex", DateStyle: "ISO", TimeZone: "UTC" };

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
  readonly #stream: Duplex;
  #isClosed = false;

  private constructor(sql: postgres.Sql, stream: Duplex) {
    this.#sql = sql;
    this.#stream = stream;
  }

  /** Begins at the position that the slot has confirmed. @throws The server's error. */
  static async open(
    { url, slot, publication, hasMessages, timeoutMs }: {
      url: string;
      slot: string;
      publication: string;
      /** Whether the plugin is asked for messages, which it knows from PostgreSQL 14 on. */
      hasMessages: boolean;
      timeoutMs: number;
    },
    receiver: LogReceiver,
  ): Promise<ReplicationConnection> {
    const sql = postgres(withoutTextSettings(url), {
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
    try {
      const messages = hasMessages ? ", messages 'true'" : "";
      const stream = await sql.unsafe(
        `START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names '${publication}'${messages})`,
      ).writable() as Duplex;
      const connection = new ReplicationConnection(sql, stream);
      stream.on("data", (chunk: Uint8Array) => connection.#take(chunk, receiver));
      stream.on("error", (error) => receiver.ended(reasonOf(error)));
      stream.on("close", () => receiver.ended("the server has closed the connection"));
      stream.on("end", () => receiver.ended("the server has ended the log"));
      return connection;
    } catch (error) {
      await sql.end({ timeout: 0 });
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
    if (this.#isClosed || this.#stream.destroyed) return;
    const status = Buffer.alloc(STATUS_BYTES);
    status[0] = STATUS;
    for (const at of [1, 9, 17]) status.writeBigUInt64BE(position, at);
    status.writeBigInt64BE(BigInt(Date.now() - EPOCH_UNIX_MS) * 1000n, 25);
    status[33] = asks ? 1 : 0;
    this.#stream.write(status);
  }

  /** Reads no more until `resume`. */
  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** Ends the log and the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#endLog();
    await this.#sql.end({ timeout: 0 });
  }

  /** Without the end of the copy, the server would log a connection that fails. */
  async #endLog(): Promise<void> {
    if (this.#stream.destroyed) return;
    const closed = Promise.withResolvers<void>();
    const timer = setTimeout(closed.resolve, END_MS);
    this.#stream.once("close", () => closed.resolve());
    this.#stream.end();
    this.#stream.resume();
    await closed.promise;
    clearTimeout(timer);
  }
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
