import { createHash } from "node:crypto";
import { hostPortText } from "../net/transport.ts";
import { reasonOf } from "../process/reason.ts";
import { latin1Bytes } from "../../store/base/bytes.ts";
import {
  type Address,
  dial,
  type DialOptions,
  type PeerLogin,
  type PeerSocket,
  type UnixAddress,
} from "./dial.ts";
import { LineReader, LineTooLongError, REPLY_LINE_LENGTH_MAX } from "./line_reader.ts";

export type { Address, UnixAddress };

/** Returns `host:port`, or the path. */
export function addressText(address: Address | UnixAddress): string {
  return "path" in address ? address.path : hostPortText(address.hostname, address.port);
}

/** A server cannot be reached, or sends something else than its protocol allows. */
export class PeerError extends Error {
  override readonly name = "PeerError";
}

/** A value, without its bytes. */
export interface ValueDigest {
  /** 32 bits. */
  readonly flags: number;
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** A value is read in pieces, so that it is never in memory as a whole. */
const PIECE_LENGTH = 64 * 1024;
/** Length of the CR LF behind a value. */
const TRAILER_LENGTH = 2;

/** A connection to a server. Buffers at most one line, or one piece of a value. */
export class Peer {
  /** `addressText` */
  readonly name: string;
  /** How long the server may be silent, in milliseconds. */
  readonly timeoutMs: number;
  readonly #socket: PeerSocket;
  readonly #reader: LineReader;

  private constructor(name: string, socket: PeerSocket, timeoutMs: number) {
    this.name = name;
    this.timeoutMs = timeoutMs;
    this.#socket = socket;
    const read = (buffer: Uint8Array): Promise<number | null> => this.#within(socket.read(buffer));
    this.#reader = new LineReader({ read }, REPLY_LINE_LENGTH_MAX);
  }

  /**
   * Connects, and authenticates if there is a login.
   *
   * @param options The time-out is that for every byte that is waited for.
   * @throws PeerError
   */
  static async connect(address: Address | UnixAddress, options: DialOptions): Promise<Peer> {
    const peer = await Peer.#open(address, options);
    if (options.login === null) return peer;
    try {
      await peer.#authenticate(options.login);
      return peer;
    } catch (error) {
      peer.close();
      throw error;
    }
  }

  static async #open(
    address: Address | UnixAddress,
    { timeoutMs, caCert }: DialOptions,
  ): Promise<Peer> {
    const name = addressText(address);
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), timeoutMs);
    try {
      return new Peer(name, await dial(address, caCert, giveUp.signal), timeoutMs);
    } catch (error) {
      const reason = giveUp.signal.aborted
        ? `no connection within ${timeoutMs} ms`
        : reasonOf(error);
      throw new PeerError(`${name}: ${reason}`);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends requests. @param requests Text has one character a byte. @throws PeerError */
  async send(requests: string | Uint8Array): Promise<void> {
    let left = typeof requests === "string" ? latin1Bytes(requests) : requests;
    while (left.length > 0) left = left.subarray(await this.#within(this.#socket.write(left)));
  }

  /**
   * Sends a request, and reads its reply within a time for the whole of it, beside that for each read.
   *
   * @param name Of the request, for errors.
   * @param read Reads the reply.
   * @param limitMs In milliseconds.
   * @param signal Gives the request up: the connection is closed, so that the server ends it, too.
   * @throws PeerError; what `read` throws.
   */
  async exchange<Reply>(
    name: string,
    request: string | Uint8Array,
    read: () => Promise<Reply>,
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<Reply> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.close();
    }, limitMs);
    const giveUp = (): void => this.close();
    signal?.addEventListener("abort", giveUp);
    try {
      signal?.throwIfAborted();
      await this.send(request);
      return await read();
    } catch (error) {
      if (!isLate) throw error;
      throw this.error(`no whole reply to ${name} within ${Math.round(limitMs)} ms`);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Returns the next line of the replies. @throws PeerError */
  async line(): Promise<string> {
    let line: string | null;
    try {
      line = await this.#reader.line();
    } catch (error) {
      throw error instanceof LineTooLongError ? this.error(error.message) : error;
    }
    if (line === null) throw this.error("closed the connection");
    return line;
  }

  /**
   * Reads the value behind a line.
   *
   * @param length As the line says it, in decimal digits.
   * @throws PeerError
   */
  async value(flags: number, length: string | undefined): Promise<ValueDigest> {
    let bytes: number;
    try {
      bytes = valueLength(length);
    } catch (error) {
      throw this.error(reasonOf(error));
    }
    const hash = createHash("sha256");
    for (let left = bytes; left > 0;) {
      const piece = await this.block(Math.min(left, PIECE_LENGTH));
      hash.update(piece);
      left -= piece.length;
    }
    const [cr, lf] = await this.block(TRAILER_LENGTH);
    if (cr !== 0x0d || lf !== 0x0a) {
      throw this.error(`announces a value of ${bytes} bytes, and sends another length`);
    }
    return { flags, bytes, sha256: hash.digest("hex") };
  }

  /** Whether every byte that was received was taken. */
  get isRead(): boolean {
    return this.#reader.isEmpty;
  }

  /** Returns an error about this server. */
  error(reason: string): PeerError {
    return new PeerError(`${this.name}: ${reason}`);
  }

  /** Returns an error about a reply. */
  unexpected(request: string, line: string): PeerError {
    return this.error(`answers ${request} with ${JSON.stringify(line.slice(0, 200))}`);
  }

  close(): void {
    try {
      this.#socket.close();
    } catch {
      // It is closed already.
    }
  }

  async #authenticate({ user, password }: PeerLogin): Promise<void> {
    const block = `${user} ${password}`;
    await this.send(`set login 0 0 ${block.length}\r\n${block}\r\n`);
    const line = await this.line();
    if (line !== "STORED") throw this.unexpected(`the login of user ${user}`, line);
  }

  /** Returns the next bytes. @throws PeerError */
  async block(length: number): Promise<Uint8Array> {
    const block = await this.#reader.block(length);
    if (block === null) throw this.error("closed the connection");
    return block;
  }

  async #within<Result>(operation: Promise<Result>): Promise<Result> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.close();
    }, this.timeoutMs);
    try {
      return await operation;
    } catch (error) {
      throw this.error(isLate ? `no reply within ${this.timeoutMs} ms` : reasonOf(error));
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The largest value that a cache can hold is 1 GiB. */
const VALUE_LENGTH_MAX = 2 ** 30;

/**
 * Returns the length of a value, as a reply announces it in decimal digits.
 *
 * @throws RangeError
 */
function valueLength(digits: string | undefined): number {
  const length = /^\d{1,10}$/.test(digits ?? "") ? Number(digits) : NaN;
  if (length <= VALUE_LENGTH_MAX) return length;
  throw new RangeError(
    `announces a value of ${digits ?? "no"} bytes; the longest has ${VALUE_LENGTH_MAX}`,
  );
}
