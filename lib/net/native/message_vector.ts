// Hot path of UDP: no allocation.
import { addressOf } from "./iovec.ts";

/** Room for the address of a UDP peer: a `struct sockaddr_in6` has 28 bytes. */
export const PEER_BYTES = 32;

/*
 * In 32-bit words:
 *
 *   struct iovec     0 base  2 length
 *   struct mmsghdr   0 name  2 name length  4 vectors  6 their count  8 control  10 its length  12 flags
 *                    14 bytes received or sent
 */
const VECTOR_WORDS = 4;
const MESSAGE_WORDS = 16;
const NAME_LENGTH_WORD = 2;
const VECTORS_WORD = 4;
const COUNT_WORD = 6;
const LENGTH_WORD = 14;
const TWO_32 = 2 ** 32;

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
      this.#putAddress(
        this.words,
        word + VECTORS_WORD,
        address + index * pieces * 4 * VECTOR_WORDS,
      );
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
    this.#putAddress(this.words, word, address);
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
    this.#putAddress(this.#vectors, word, address);
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

  #putAddress(words: Uint32Array, word: number, address: number): void {
    words[word] = address % TWO_32;
    words[word + 1] = Math.floor(address / TWO_32);
  }
}
