import type { ReadValue } from "./thread_parts.ts";
import type { GrowingBytes } from "./byte_client.ts";

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const BINARY_HEADER_BYTES = 24;

/** Reads replies from the beginning to the end. */
export class ReplyParser implements ReadValue {
  from: GrowingBytes;
  /** The value that was read last. */
  flags = 0;
  at = 0;
  length = 0;
  /** Its id; -1: the reply has none. */
  id = -1;
  #next = 0;

  constructor(from: GrowingBytes) {
    this.from = from;
  }

  /** Begins with new replies. */
  begin(from: GrowingBytes): void {
    this.from = from;
    this.#next = 0;
  }

  /** Reads `VALUE <key> <flags> <length> [<id>]` and the value, if they come next. */
  value(key: Uint8Array): boolean {
    if (!this.#isNext("VALUE ")) return false;
    const keyAt = this.#next + 6;
    const { bytes } = this.from;
    for (let index = 0; index < key.length; index++) {
      if (bytes[keyAt + index] !== key[index]) return false;
    }
    if (bytes[keyAt + key.length] !== SPACE) return false;
    this.#next = keyAt + key.length + 1;
    this.flags = this.#number();
    this.length = this.#number();
    this.id = bytes[this.#next - 1] === SPACE ? this.#number() : -1;
    this.#data(LF);
    return true;
  }

  /** Reads the reply to `mg <key> v f s k c`. Returns whether it is a hit. */
  metaValue(key: Uint8Array): boolean {
    const line = this.#lineStart();
    const name = String.fromCharCode(...key);
    if (line === `EN k${name}`) {
      this.expect("\r\n");
      return false;
    }
    const [, length, flags, size, found, id] =
      /^VA (\d+) f(\d+) s(\d+) k(\S+) c(\d+)(?: [WXZ])*$/.exec(line) ?? [];
    if (length === undefined || length !== size || found !== name) {
      throw this.#strange("a reply to mg", line);
    }
    this.flags = Number(flags);
    this.length = Number(length);
    this.id = Number(id);
    this.#data(CR);
    return true;
  }

  /** Reads the reply to GetK with this number as its opaque. Returns whether it is a hit. */
  binaryValue(key: Uint8Array, opaque: number): boolean {
    const { view, bytes } = this.from;
    const start = this.#next;
    const bodyLength = view.getUint32(start + 8);
    const status = view.getUint16(start + 6);
    const isReply = bytes[start] === 0x81 && view.getUint32(start + 12) === opaque;
    this.#next = start + BINARY_HEADER_BYTES + bodyLength;
    if (!isReply || this.#next > this.from.length || status > 1) {
      throw this.#strange("a packet", `status ${status}, opaque ${view.getUint32(start + 12)}`);
    }
    if (status === 1) return false;
    const keyAt = start + BINARY_HEADER_BYTES + 4;
    for (let index = 0; index < key.length; index++) {
      if (bytes[keyAt + index] !== key[index]) throw this.#strange("the key", "another one");
    }
    this.flags = view.getUint32(keyAt - 4);
    this.at = keyAt + key.length;
    this.length = this.#next - this.at;
    this.id = view.getUint32(start + 16) * 2 ** 32 + view.getUint32(start + 20);
    return true;
  }

  /** Reads a text if it comes next. */
  skip(text: string): boolean {
    const isNext = this.#isNext(text);
    if (isNext) this.#next += text.length;
    return isNext;
  }

  /** Reads a text that must come next. */
  expect(text: string): void {
    if (!this.skip(text)) throw this.#strange(text.trimEnd(), this.from.lineAt(this.#next));
  }

  /** Reads a line. Returns it without its end. */
  line(): string {
    const line = this.#lineStart();
    this.expect("\r\n");
    return line;
  }

  /** Nothing must come any more. */
  end(): void {
    if (this.#next !== this.from.length) {
      throw this.#strange("the end", this.from.lineAt(this.#next));
    }
  }

  #isNext(text: string): boolean {
    const { bytes, length } = this.from;
    if (this.#next + text.length > length) return false;
    for (let index = 0; index < text.length; index++) {
      if (bytes[this.#next + index] !== text.charCodeAt(index)) return false;
    }
    return true;
  }

  #lineStart(): string {
    const line = this.from.lineAt(this.#next);
    this.#next += line.length;
    return line;
  }

  /** Reads digits and the byte behind them. */
  #number(): number {
    const { bytes } = this.from;
    let number = 0;
    for (;; this.#next++) {
      const digit = bytes[this.#next]! - 0x30;
      if (digit < 0 || digit > 9) break;
      number = number * 10 + digit;
    }
    this.#next++;
    return number;
  }

  /** Reads the rest of the line's end, `first`, and a value. */
  #data(first: number): void {
    const { bytes } = this.from;
    if (first === CR) this.#next++;
    const isLine = bytes[this.#next] === LF;
    this.at = this.#next + 1;
    this.#next = this.at + this.length;
    if (!isLine || this.#next > this.from.length) {
      throw this.#strange("a value", `${this.length} bytes`);
    }
    this.expect("\r\n");
  }

  #strange(expected: string, found: string): Error {
    return new Error(`expected: ${expected}; found: ${found}`);
  }
}
