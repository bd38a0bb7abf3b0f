// Hot path for long values: no allocation.
import type { LibcCalls } from "./libc.ts";

/** More than the pieces that one call ever sends or receives. */
const VECTORS_MAX = 256;

/*
 * In 32-bit words:
 *
 *   struct iovec    0 base  2 length
 *   struct msghdr   0 name  2 name length  4 vectors  6 their count  8 control  10 its length  12 flags
 */
const VECTOR_WORDS = 4;
const HEADER_WORDS = 14;
const HEADER_VECTORS = 4;
const HEADER_COUNT = 6;
const TWO_32 = 2 ** 32;

/**
 * Returns the address of an array's memory. It does not move while the array lives, if its buffer
 * is not on V8's heap.
 */
export function addressOf(bytes: Uint8Array<ArrayBufferLike>): number {
  return Number(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes as Uint8Array<ArrayBuffer>)));
}

/** Pieces of memory that one system call sends or fills, in order. */
export class Vectors {
  readonly #words = new Uint32Array(VECTOR_WORDS * VECTORS_MAX);
  readonly #header = new Uint32Array(HEADER_WORDS);
  readonly #calls: LibcCalls;
  #count = 0;

  constructor(calls: LibcCalls) {
    this.#calls = calls;
    const address = addressOf(new Uint8Array(this.#words.buffer));
    this.#header[HEADER_VECTORS] = address % TWO_32;
    this.#header[HEADER_VECTORS + 1] = Math.floor(address / TWO_32);
  }

  get count(): number {
    return this.#count;
  }

  address(index: number): number {
    const word = index * VECTOR_WORDS;
    return this.#words[word + 1]! * TWO_32 + this.#words[word]!;
  }

  length(index: number): number {
    return this.#words[index * VECTOR_WORDS + 2]!;
  }

  clear(): void {
    this.#count = 0;
  }

  /** Appends `length` bytes at an address. Does nothing if `length` is 0. */
  add(address: number, length: number): void {
    if (length === 0) return;
    const word = this.#count * VECTOR_WORDS;
    this.#words[word] = address % TWO_32;
    this.#words[word + 1] = Math.floor(address / TWO_32);
    this.#words[word + 2] = length;
    this.#count++;
  }

  /** @returns As sendmsg(2). */
  send(fd: number, flags: number): number {
    this.#header[HEADER_COUNT] = this.#count;
    return this.#calls.sendmsg(fd, this.#header, flags);
  }

  /** @returns As recvmsg(2). */
  receive(fd: number, flags: number): number {
    this.#header[HEADER_COUNT] = this.#count;
    return this.#calls.recvmsg(fd, this.#header, flags);
  }
}
