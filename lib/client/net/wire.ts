import { Buffer } from "node:buffer";
import type { Login } from "./address.ts";
import type { Awaitable } from "../values/awaitable.ts";

/** Longest value of a reply, in bytes: memcached's largest `-I`. */
export const VALUE_LENGTH_MAX = 1 << 30;
const NONE: Uint8Array = new Uint8Array(0);

/**
 * The form of a reply: of a meta command, with an opaque; one line; or lines up to END, where VALUE lines have a
 * value.
 */
export type Shape = "meta" | "line" | "lines";

/** A request as the binary protocol has it, besides key and value. */
export interface Packet {
  readonly opcode: number;
  /** 32 bits each. */
  readonly extras?: readonly number[];
  /** Only if the item has this cas id. */
  readonly cas?: string | undefined;
  /** In the place of the request's key. */
  readonly key?: string;
}

/** A request: its line without CR LF, and the value behind it. */
export interface Request<Result> {
  /** One character a byte. A meta command's line gets the opaque at its end. */
  readonly line: string;
  /** Undefined: the binary protocol has no such request. */
  readonly packet?: Packet;
  readonly value?: Uint8Array;
  readonly shape: Shape;
  /** One character a byte; "": none. */
  readonly key: string;
  /** Time for the reply beyond the client's time-out, in ms: the server may wait so long. */
  readonly extraMs?: number;
  /**
   * Returns the result or a promise of it, or throws. Called as soon as the reply is there, whose value is valid only
   * until it returns.
   */
  read(reply: Reply): Awaitable<Result>;
}

/** A line of a classic reply. */
export interface ReplyLine {
  readonly words: readonly string[];
  /** Of a VALUE line. */
  readonly value: Uint8Array | undefined;
}

/** A reply. */
export class Reply {
  /** The first word of the line: `HD`, `VA`, `STORED`. */
  status = "";
  /** The line; "" for a meta command's reply. */
  line = "";
  /** -1: none. */
  opaque = -1;
  value: Uint8Array = NONE;
  /** Of the client, 32 bits; -1: none. */
  flags = -1;
  /** The item's cas id; "": none. */
  cas = "";
  /** Seconds until the item expires; -1: never; NaN: none. */
  ttlSec = NaN;
  /** This client is to fetch the value. */
  isWon = false;
  /** The value was marked as stale. */
  isStale = false;
  /** Another client is to fetch the value. */
  isHeld = false;
  /** An update token is out, or every key is uncacheable: nobody is to fetch the value. Only leased says so. */
  isUncacheable = false;
  /** Lines before END. */
  lines: ReplyLine[] = [];

  /** Whether it refuses the request with an error. */
  get isError(): boolean {
    return /^(?:(?:CLIENT|SERVER)_)?ERROR\b/.test(this.line);
  }
}

/** Stands for the value's length in a request's line. */
export const VALUE_LENGTH = "\0";

/** One way to write requests and to read their replies. */
export interface Wire {
  /** Follows each value. */
  readonly valueEnd: string;

  /**
   * Returns the bytes of a request as text, one character a byte, up to its value; undefined: this protocol cannot
   * say it.
   */
  headOf(request: Request<unknown>, opaque: number): string | undefined;

  /** Returns the request that comes first. @param answered Called with why it is refused; undefined: it is not. */
  loginOf(login: Login, answered: (refusal?: string) => void): Request<void>;

  /** Adds received bytes. Large values are collected without copying them for each piece. */
  add(piece: Uint8Array): void;

  /** Returns the next reply, or undefined until more bytes are added. @throws What is wrong with the bytes. */
  next(shape: Shape): Reply | undefined;

  /** Whether a reply may be one to the request of this opaque. */
  isReplyTo(shape: Shape, opaque: number, reply: Reply): boolean;

  /** Whether bytes are left that no reply has used. */
  readonly hasRest: boolean;
}

/** Received bytes that wait to be read, in as few pieces as can be. */
export class ReceivedBytes {
  #parts: Uint8Array[] = [];
  #have = 0;
  #need = 1;
  /** The bytes that can be read; those before `at` have been. */
  protected bytes: Buffer = Buffer.alloc(0);
  protected at = 0;

  /** See Wire. */
  add(piece: Uint8Array): void {
    this.#parts.push(piece);
    this.#have += piece.length;
  }

  /** See Wire. */
  get hasRest(): boolean {
    return this.#have > 0 || this.at < this.bytes.length;
  }

  /** Makes one piece of the received bytes when there are enough of them. @returns Whether there are. */
  protected join(): boolean {
    if (this.#have === 0) return this.at < this.bytes.length && this.#need === 0;
    const rest = this.bytes.length - this.at;
    if (this.#need > this.#have + rest) return false;
    if (rest > 0) this.#parts.unshift(this.bytes.subarray(this.at));
    const [first] = this.#parts as [Uint8Array];
    this.bytes = this.#parts.length === 1
      ? Buffer.from(first.buffer, first.byteOffset, first.length)
      : Buffer.concat(this.#parts);
    this.at = 0;
    this.#parts = [];
    this.#have = 0;
    this.#need = 0;
    return true;
  }

  /** @param more Bytes that must arrive before there can be a reply. */
  protected waitFor(more: number): undefined {
    this.#need = this.bytes.length - this.at + more;
    return undefined;
  }
}

/** Returns bytes as text, one character a byte. */
export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}
