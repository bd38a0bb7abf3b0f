import { latin1Text } from "../../store/base/bytes.ts";

/** The receiving half of a connection. */
export interface ByteSource {
  /** Reads into the buffer. @returns The number of bytes read; null at the end. */
  read(buffer: Uint8Array): Promise<number | null>;
}

/** A line was longer than its limit. */
export class LineTooLongError extends Error {
  override readonly name = "LineTooLongError";

  /** @param lengthMax In bytes. */
  constructor(lengthMax: number) {
    super(`sends a line longer than ${lengthMax} bytes`);
  }
}

/** Longest line of a reply, in bytes. A key has 250 at most, or 336 in base64. */
export const REPLY_LINE_LENGTH_MAX = 2048;
const BUFFER_BYTES = 16 * 1024;
const LF = 0x0a;
const CR = 0x0d;

/** Reads lines and data blocks, of requests or of replies. Buffers at most one line and one read. */
export class LineReader {
  readonly #source: ByteSource;
  readonly #lineLengthMax: number;
  #buffer = new Uint8Array(BUFFER_BYTES);
  #start = 0;
  #end = 0;

  constructor(source: ByteSource, lineLengthMax: number) {
    this.#source = source;
    this.#lineLengthMax = lineLengthMax;
  }

  /** Whether every byte that was received was taken. */
  get isEmpty(): boolean {
    return this.#start === this.#end;
  }

  /**
   * Returns the next line without its line end, or null when the peer has closed.
   *
   * @throws LineTooLongError
   */
  async line(): Promise<string | null> {
    for (;;) {
      const line = this.received();
      if (line !== null) return line;
      if (this.#end - this.#start > this.#lineLengthMax) {
        throw new LineTooLongError(this.#lineLengthMax);
      }
      if (!await this.#more()) return null;
    }
  }

  /** Returns the next line if it has been received; else null. */
  received(): string | null {
    const end = this.#lineEnd();
    if (end < 0) return null;
    const stop = end > this.#start && this.#buffer[end - 1] === CR ? end - 1 : end;
    const text = latin1Text(this.#buffer.subarray(this.#start, stop));
    this.#start = end + 1;
    return text;
  }

  /** Returns the next `length` bytes, or null when the peer closes before. */
  async block(length: number): Promise<Uint8Array | null> {
    const block = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      if (this.#start === this.#end && !await this.#more()) return null;
      const count = Math.min(length - done, this.#end - this.#start);
      block.set(this.#buffer.subarray(this.#start, this.#start + count), done);
      this.#start += count;
      done += count;
    }
    return block;
  }

  #lineEnd(): number {
    return this.#buffer.subarray(0, this.#end).indexOf(LF, this.#start);
  }

  async #more(): Promise<boolean> {
    if (this.#start > 0) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
    }
    if (this.#end === this.#buffer.length) {
      const larger = new Uint8Array(2 * this.#buffer.length);
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    const received = await this.#source.read(this.#buffer.subarray(this.#end));
    if (received === null) return false;
    this.#end += received;
    return true;
  }
}
