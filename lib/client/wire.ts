import { Buffer } from "node:buffer";
import { isId, shown } from "./checks.ts";

/** Longest line of a reply, in bytes. A server that sends a longer one sends garbage. */
const LINE_LENGTH_MAX = 4096;
/** Longest value of a reply, in bytes: memcached's largest `-I`. */
const VALUE_LENGTH_MAX = 1 << 30;
const NONE: Uint8Array = new Uint8Array(0);
/** Longest time of a reply, in seconds: 32 bits. */
const TTL_SEC_MAX = 0xffff_ffff;
/** Largest client flags: 32 bits. */
const FLAGS_MAX = 0xffff_ffff;
const NEW_LINE = 10;
const RETURN = 13;
const BLANK = 32;
const ZERO = 48;

/**
 * The form of a reply: of a meta command, with an opaque; one line; or lines up to END, where VALUE lines have a
 * value.
 */
export type Shape = "meta" | "line" | "lines";

/** A request: its line without CR LF, and the value behind it. */
export interface Request<Result> {
  /** One character a byte. A meta command's line gets the opaque at its end. */
  readonly line: string;
  readonly value?: Uint8Array;
  readonly shape: Shape;
  /** One character a byte; "": none. */
  readonly key: string;
  /** Time for the reply beyond the client's time-out, in ms: the server may wait so long. */
  readonly extraMs?: number;
  /** Returns the result, or throws. Called as soon as the reply is there; its value is valid only until it returns. */
  read(reply: Reply): Result;
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
  /** Lines before END. */
  lines: ReplyLine[] = [];

  /** Whether it refuses the request with an error. */
  get isError(): boolean {
    return /^(?:(?:CLIENT|SERVER)_)?ERROR\b/.test(this.line);
  }
}

/** Returns the bytes of a request as text, one character a byte, up to its value. */
export function headOf({ line, value, shape }: Request<unknown>, opaque: number): string {
  const head = shape === "meta" ? `${line} O${opaque}\r\n` : `${line}\r\n`;
  return value === undefined ? head : head.replace(VALUE_LENGTH, `${value.length}`);
}

/** Stands for the value's length in a request's line. */
export const VALUE_LENGTH = "\0";

/** Splits received bytes into replies. */
export class Decoder {
  #parts: Uint8Array[] = [];
  #have = 0;
  #need = 1;
  #lines: ReplyLine[] = [];
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;

  /** Adds received bytes. Large values are collected without copying them for each piece. */
  add(piece: Uint8Array): void {
    this.#parts.push(piece);
    this.#have += piece.length;
  }

  /** Returns the next reply, or undefined until more bytes are added. @throws What is wrong with the bytes. */
  next(shape: Shape): Reply | undefined {
    if (!this.#join()) return undefined;
    for (;;) {
      const start = this.#at;
      const end = this.#bytes.indexOf(NEW_LINE, start);
      const length = (end < 0 ? this.#bytes.length : end) - start;
      if (length > LINE_LENGTH_MAX) throw new Error(`a line of ${length} bytes or more`);
      if (end < 0) return this.#waitFor(1);
      if (this.#bytes[end - 1] !== RETURN || length === 0) throw new Error("a line without CR");
      const reply = shape === "meta" ? this.#metaReply(start, end) : this.#classicReply(start, end);
      if (reply === undefined) return undefined;
      if (shape !== "lines" || reply.line === "END" || reply.line === "RESET" || reply.isError) {
        reply.lines = this.#lines;
        if (this.#lines.length > 0) this.#lines = [];
        return reply;
      }
      const words = reply.line.split(" ");
      if (words[0] !== "VALUE" && words[0] !== "STAT") {
        throw new Error(`the line ${shown(reply.line)}`);
      }
      this.#lines.push({ words, value: words[0] === "VALUE" ? reply.value : undefined });
    }
  }

  /** Whether bytes are left that no reply has used. */
  get hasRest(): boolean {
    return this.#have > 0 || this.#at < this.#bytes.length;
  }

  /** Makes one piece of the received bytes when there are enough of them. */
  #join(): boolean {
    if (this.#have === 0) return this.#at < this.#bytes.length && this.#need === 0;
    const rest = this.#bytes.length - this.#at;
    if (this.#need > this.#have + rest) return false;
    if (rest > 0) this.#parts.unshift(this.#bytes.subarray(this.#at));
    const [first] = this.#parts as [Uint8Array];
    this.#bytes = this.#parts.length === 1
      ? Buffer.from(first.buffer, first.byteOffset, first.length)
      : Buffer.concat(this.#parts);
    this.#at = 0;
    this.#parts = [];
    this.#have = 0;
    this.#need = 0;
    return true;
  }

  /** @param more Bytes that must arrive before there can be a reply. */
  #waitFor(more: number): undefined {
    this.#need = this.#bytes.length - this.#at + more;
    return undefined;
  }

  /** @returns The value behind a line, or undefined until it is whole. */
  #valueAfter(end: number, length: number): Uint8Array | undefined {
    if (length > VALUE_LENGTH_MAX) throw new Error(`a value of ${length} bytes`);
    const start = end + 1;
    const missing = start + length + 2 - this.#bytes.length;
    if (missing > 0) return this.#waitFor(missing);
    if (this.#bytes[start + length] !== RETURN || this.#bytes[start + length + 1] !== NEW_LINE) {
      throw new Error("no line end behind a value");
    }
    this.#at = start + length + 2;
    return this.#bytes.subarray(start, start + length);
  }

  #classicReply(start: number, end: number): Reply | undefined {
    const reply = new Reply();
    reply.line = this.#bytes.toString("latin1", start, end - 1);
    const [status = "", , , length = ""] = reply.line.split(" ", 4);
    reply.status = status;
    if (status === "VALUE") {
      if (!/^\d{1,10}$/.test(length)) throw new Error(`the line ${shown(reply.line)}`);
      const value = this.#valueAfter(end, Number(length));
      if (value === undefined) return undefined;
      reply.value = value;
    } else this.#at = end + 1;
    return reply;
  }

  #metaReply(start: number, end: number): Reply | undefined {
    const bytes = this.#bytes;
    // A status of two letters, then a blank or CR.
    if (end - start < 3 || bytes[start + 2]! > BLANK) return this.#classicReply(start, end);
    const reply = new Reply();
    reply.status = bytes.toString("latin1", start, start + 2);
    let at = start + 3;
    if (reply.status === "VA") {
      const value = this.#valueAfter(end, numberAt(bytes, at, VALUE_LENGTH_MAX));
      if (value === undefined) return undefined;
      reply.value = value;
      while (bytes[at]! > BLANK) at++;
    } else this.#at = end + 1;
    for (; at < end; at++) {
      if (bytes[at]! > BLANK) {
        readFlag(reply, bytes, at);
        while (bytes[at]! > BLANK) at++;
      }
    }
    return reply;
  }
}

/** @throws What is wrong with the flag. */
function readFlag(reply: Reply, bytes: Buffer, at: number): void {
  switch (String.fromCharCode(bytes[at]!)) {
    case "O":
      reply.opaque = numberAt(bytes, at + 1, Number.MAX_SAFE_INTEGER);
      break;
    case "f":
      reply.flags = numberAt(bytes, at + 1, FLAGS_MAX);
      break;
    case "t": {
      const isForEver = bytes[at + 1] === 45;
      const number = numberAt(bytes, at + (isForEver ? 2 : 1), isForEver ? 1 : TTL_SEC_MAX);
      reply.ttlSec = isForEver ? -number : number;
      break;
    }
    case "c": {
      let end = at + 1;
      while (bytes[end]! > BLANK) end++;
      reply.cas = bytes.toString("latin1", at + 1, end);
      if (!isId(reply.cas)) throw new Error(`the cas id ${shown(reply.cas)}`);
      break;
    }
    case "W":
      reply.isWon = true;
      break;
    case "X":
      reply.isStale = true;
      break;
    case "Z":
      reply.isHeld = true;
      break;
  }
}

/** Returns bytes as text, one character a byte. */
export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}

/** Returns the number whose digits are the whole word. @throws The word is none up to `max`. */
function numberAt(bytes: Buffer, start: number, max: number): number {
  let at = start;
  let number = 0;
  for (; bytes[at]! >= ZERO && bytes[at]! < ZERO + 10; at++) {
    number = number * 10 + bytes[at]! - ZERO;
  }
  if (at > start && bytes[at]! <= BLANK && number <= max) return number;
  while (bytes[at]! > BLANK) at++;
  throw new Error(`${shown(bytes.toString("latin1", start, at))} instead of a number`);
}
