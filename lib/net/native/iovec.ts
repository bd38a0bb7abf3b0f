// Hot path for long values and for UDP: no allocation.
import type { LibcCalls } from "./libc.ts";

/** More than the pieces that one call ever sends or receives. */
const VECTORS_MAX = 256;
/** Room for the address of a UDP peer: a `struct sockaddr_in6` has 28 bytes. */
export const PEER_BYTES = 32;

/*
 * In 32-bit words:
 *
 *   struct iovec     0 base  2 length
 *   struct msghdr    0 name  2 name length  4 vectors  6 their count  8 control  10 its length  12 flags
 *   struct mmsghdr   a msghdr  14 bytes received or sent
 */
const VECTOR_WORDS = 4;
const HEADER_WORDS = 14;
const MESSAGE_WORDS = 16;
const NAME_LENGTH_WORD = 2;
const VECTORS_WORD = 4;
const COUNT_WORD = 6;
const LENGTH_WORD = 14;
const TWO_32 = 2 ** 32;

/**
 * Returns the address of an array's memory. It does not move while the array lives, if its buffer
 * is not on V8's heap.
 */
export function addressOf(bytes: Uint8Array<ArrayBufferLike>): number {
  return Number(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes as Uint8Array<ArrayBuffer>)));
}

/** Writes an address into two words. */
function putAddress(words: Uint32Array, word: number, address: number): void {
  words[word] = address % TWO_32;
  words[word + 1] = Math.floor(address / TWO_32);
}

/** Pieces of memory that one system call sends or fills, in order. */
export class Vectors {
  readonly #words = new Uint32Array(VECTOR_WORDS * VECTORS_MAX);
  readonly #header = new Uint32Array(HEADER_WORDS);
  readonly #calls: LibcCalls;
  #count = 0;

  constructor(calls: LibcCalls) {
    this.#calls = calls;
    putAddress(this.#header, VECTORS_WORD, addressOf(new Uint8Array(this.#words.buffer)));
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
    putAddress(this.#words, word, address);
    this.#words[word + 2] = length;
    this.#count++;
  }

  /** @returns As sendmsg(2). */
  send(fd: number, flags: number): number {
    this.#header[COUNT_WORD] = this.#count;
    return this.#calls.sendmsg(fd, this.#header, flags);
  }

  /** @returns As recvmsg(2). */
  receive(fd: number, flags: number): number {
    this.#header[COUNT_WORD] = this.#count;
    return this.#calls.recvmsg(fd, this.#header, flags);
  }
}

/** Messages for recvmmsg(2) or sendmmsg(2), each with a peer's address and the same number of pieces of memory. */
export class MessageVector {
  /** For the system call. */
  readonly words: Uint32Array<ArrayBuffer>;
  readonly #tails: Uint32Array<ArrayBuffer>[] = [];
  readonly #vectors: Uint32Array<ArrayBuffer>;
  readonly #pieces: number;
  readonly #count: number;

  constructor(count: number, pieces: number) {
    this.#count = count;
    this.#pieces = pieces;
    this.words = new Uint32Array(count * MESSAGE_WORDS);
    this.#vectors = new Uint32Array(count * pieces * VECTOR_WORDS);
    const address = addressOf(new Uint8Array(this.#vectors.buffer));
    for (let index = 0; index < count; index++) {
      const word = index * MESSAGE_WORDS;
      putAddress(this.words, word + VECTORS_WORD, address + index * pieces * 4 * VECTOR_WORDS);
      this.words[word + COUNT_WORD] = pieces;
      this.#tails.push(this.words.subarray(word));
    }
  }

  /** The messages from number `index` on, for the system call. */
  from(index: number): Uint32Array<ArrayBuffer> {
    return this.#tails[index]!;
  }

  /** Sets the memory that holds the address of a message's peer. */
  setPeer(index: number, address: number, length: number): void {
    const word = index * MESSAGE_WORDS;
    putAddress(this.words, word, address);
    this.words[word + NAME_LENGTH_WORD] = length;
  }

  /** Before a receive: makes room for all peers' addresses. */
  resetPeers(length: number): void {
    for (let index = 0; index < this.#count; index++) {
      this.words[index * MESSAGE_WORDS + NAME_LENGTH_WORD] = length;
    }
  }

  setPiece(index: number, piece: number, address: number, length: number): void {
    const word = (index * this.#pieces + piece) * VECTOR_WORDS;
    putAddress(this.#vectors, word, address);
    this.#vectors[word + 2] = length;
  }

  /** After a receive: the length of the peer's address. */
  peerBytes(index: number): number {
    return this.words[index * MESSAGE_WORDS + NAME_LENGTH_WORD]!;
  }

  /** After a receive: the bytes of the datagram. */
  length(index: number): number {
    return this.words[index * MESSAGE_WORDS + LENGTH_WORD]!;
  }
}
