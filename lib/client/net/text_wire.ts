import { Buffer } from "node:buffer";
import type { Login } from "./address.ts";
import { isId, shown } from "../checks.ts";
import {
  ReceivedBytes,
  Reply,
  type ReplyLine,
  type Request,
  type Shape,
  VALUE_LENGTH,
  VALUE_LENGTH_MAX,
  type Wire,
} from "./wire.ts";

/** Longest line of a reply, in bytes. A server that sends a longer one sends garbage. */
const LINE_LENGTH_MAX = 4096;
/** Longest time of a reply, in seconds: 32 bits. */
const TTL_SEC_MAX = 0xffff_ffff;
/** Largest client flags: 32 bits. */
const FLAGS_MAX = 0xffff_ffff;
const NEW_LINE = 10;
const RETURN = 13;
const BLANK = 32;
const ZERO = 48;

/** The text protocol with its meta commands. */
export class TextWire extends ReceivedBytes implements Wire {
  readonly valueEnd = "\r\n";
  #lines: ReplyLine[] = [];

  headOf({ line, value, shape }: Request<unknown>, opaque: number): string {
    const head = shape === "meta" ? `${line} O${opaque}\r\n` : `${line}\r\n`;
    return value === undefined ? head : head.replace(VALUE_LENGTH, `${value.length}`);
  }

  loginOf({ user, password }: Login, answered: (refusal?: string) => void): Request<void> {
    return {
      line: `set login 0 0 ${VALUE_LENGTH}`,
      value: Buffer.from(`${user} ${password}`),
      shape: "line",
      key: "",
      read: ({ status, line }) => answered(status === "STORED" ? undefined : line),
    };
  }

  isReplyTo(shape: Shape, opaque: number, reply: Reply): boolean {
    return shape !== "meta" || reply.opaque === opaque || reply.isError;
  }

  next(shape: Shape): Reply | undefined {
    if (!this.join()) return undefined;
    for (;;) {
      const start = this.at;
      const end = this.bytes.indexOf(NEW_LINE, start);
      const length = (end < 0 ? this.bytes.length : end) - start;
      if (length > LINE_LENGTH_MAX) throw new Error(`a line of ${length} bytes or more`);
      if (end < 0) return this.waitFor(1);
      if (this.bytes[end - 1] !== RETURN || length === 0) throw new Error("a line without CR");
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

  /** @returns The value behind a line, or undefined until it is whole. */
  #valueAfter(end: number, length: number): Uint8Array | undefined {
    if (length > VALUE_LENGTH_MAX) throw new Error(`a value of ${length} bytes`);
    const start = end + 1;
    const missing = start + length + 2 - this.bytes.length;
    if (missing > 0) return this.waitFor(missing);
    if (this.bytes[start + length] !== RETURN || this.bytes[start + length + 1] !== NEW_LINE) {
      throw new Error("no line end behind a value");
    }
    this.at = start + length + 2;
    return this.bytes.subarray(start, start + length);
  }

  #classicReply(start: number, end: number): Reply | undefined {
    const reply = new Reply();
    reply.line = this.bytes.toString("latin1", start, end - 1);
    const [status = "", , , length = ""] = reply.line.split(" ", 4);
    reply.status = status;
    if (status === "VALUE") {
      if (!/^\d{1,10}$/.test(length)) throw new Error(`the line ${shown(reply.line)}`);
      const value = this.#valueAfter(end, Number(length));
      if (value === undefined) return undefined;
      reply.value = value;
    } else this.at = end + 1;
    return reply;
  }

  #metaReply(start: number, end: number): Reply | undefined {
    const bytes = this.bytes;
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
    } else this.at = end + 1;
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
    case "U":
      reply.isUncacheable = true;
      break;
    case "Z":
      reply.isHeld = true;
      break;
  }
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
