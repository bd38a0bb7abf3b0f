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
    if (!this.#isKey(key, keyAt) || bytes[keyAt + key.length] !== SPACE) return false;
    this.#next = keyAt + key.length + 1;
    this.flags = this.#number();
    this.length = this.#number();
    this.id = bytes[this.#next - 1] === SPACE ? this.#number() : -1;
    this.#data();
    return true;
  }

  /** Reads the reply to `mg <key> v f s k c`. Returns whether it is a hit. */
  metaValue(key: Uint8Array): boolean {
    if (this.skip("EN k")) {
      this.#key(key);
      this.expect("\r\n");
      return false;
    }
    this.expect("VA ");
    this.length = this.#number();
    this.expect("f");
    this.flags = this.#number();
    this.expect("s");
    if (this.#number() !== this.length) throw this.#strange("the size", "another one");
    this.expect("k");
    this.#key(key);
    this.expect(" c");
    this.id = this.#number();
    // The byte behind the id has been read. A stale value has flags behind it.
    const { bytes } = this.from;
    while (bytes[this.#next - 1] !== CR) this.#next++;
    this.#data();
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
    if (!this.#isKey(key, keyAt)) throw this.#strange("the key", "another one");
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

  #isKey(key: Uint8Array, at: number): boolean {
    const { bytes } = this.from;
    for (let index = 0; index < key.length; index++) {
      if (bytes[at + index] !== key[index]) return false;
    }
    return true;
  }

  #key(key: Uint8Array): void {
    if (!this.#isKey(key, this.#next)) throw this.#strange("the key", "another one");
    this.#next += key.length;
  }

  /** Reads the LF of a line whose CR has been read, and a value. */
  #data(): void {
    const { bytes } = this.from;
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
