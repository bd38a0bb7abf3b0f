import { type ByteRegion, isOneWord, type KeyBytes } from "../../store/base/bytes.ts";
import type { Operation } from "../../store/operation.ts";
import { INPUT_BYTES, KEY_LENGTH_MAX } from "../../store/limits.ts";
import { decodeBase64 } from "../base64.ts";
import type { Numbers } from "../numbers.ts";
import * as repliesModule from "../reply/replies.ts";
import type { Request } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import * as flagsModule from "./flags.ts";

const { FLAG } = flagsModule;
const { REFUSAL } = repliesModule;

// Hot path: no allocation.

/** Index of the first flag's word, behind command and key. */
export const FIRST_FLAG = 2;
/** A line with more words, the command's included, is refused (memcached: MFLAG_MAX_OPT_LENGTH). */
const WORDS_IN_LINE_MAX = 20;
/** Its letter included (memcached: MFLAG_MAX_OPAQUE_LENGTH). */
const OPAQUE_LENGTH_MAX = 32;
const KEY_WORD = 1;

/** Offset of a decoded key in the thread's input, behind the received bytes. */
const KEY_SCRATCH_OFFSET = INPUT_BYTES;

/** The set of letters from A on, in two halves. */
const bitOf = (letter: number): number => 1 << (letter - FLAG.A_FIRST);

/**
 * The flags of a meta command, read out of the request's words. One a parser, filled for every
 * command. Every command understands the form of every flag, also of those that mean nothing to it
 * (memcached: _meta_flag_preparse).
 */
export class MetaRequest implements KeyBytes {
  readonly thread: RequestThread;
  readonly #numbers: Numbers;
  readonly #input: ByteRegion;
  readonly #request: Request;

  /** The key as the store knows it: in the line, or decoded in KEY_SCRATCH. */
  keyOffset = 0;
  keyLength = 0;
  /** Flag b: the line has the key in base64. */
  isBinary = false;
  /** Whether the refusal comes before the length of a data block is trusted, so that the block is read as commands. */
  isUnframed = false;

  /** q, v, u, I, x: whether they are there. */
  quiet = false;
  value = false;
  noUpdate = false;
  stale = false;
  empties = false;
  /** C */
  compare = false;
  compareLow = 0;
  compareHigh = 0;
  /** E */
  explicit = false;
  explicitLow = 0;
  explicitHigh = 0;
  /** N, with an expiry time. */
  vivify = false;
  vivifySeconds = 0;
  /** T */
  touches = false;
  touchSeconds = 0;
  /** R */
  recacheSeconds = 0;
  /** F */
  clientFlags = 0;
  /** M: the mode's letter; 0: not given. */
  mode = 0;
  /** J, D */
  initialLow = 0;
  initialHigh = 0;
  deltaLow = 1;
  deltaHigh = 0;
  #seenLow = 0;
  #seenHigh = 0;

  constructor(thread: RequestThread) {
    this.thread = thread;
    this.#request = thread.request;
    this.#numbers = thread.numbers;
    this.#input = thread.input;
  }

  get input(): ByteRegion {
    return this.#input;
  }

  /**
   * Reads key and flags.
   *
   * @param firstFlag The word at which flags begin.
   * @returns Null, or the line that refuses the request. Of several refusals the one memcached gives.
   */
  read(firstFlag: number): Uint8Array | null {
    this.#clear();
    const refusal = this.#readWords(firstFlag);
    if (refusal === null) return null;
    this.isUnframed = this.#hasOddWord(firstFlag);
    return this.isUnframed ? REFUSAL.BAD_FORMAT : refusal;
  }

  #readWords(firstFlag: number): Uint8Array | null {
    const request = this.#request;
    this.keyOffset = request.wordStart[KEY_WORD]!;
    this.keyLength = request.wordLength(KEY_WORD);
    if (this.keyLength > KEY_LENGTH_MAX) return REFUSAL.BAD_FORMAT;
    if (request.wordCount > WORDS_IN_LINE_MAX) return REFUSAL.FLAGS_TOO_LONG;
    const { bytes } = this.#input;
    let refusal: Uint8Array | null = null;
    for (let word = firstFlag; word < request.wordCount; word++) {
      const letter = bytes[request.wordStart[word]!]!;
      const problem = this.#readFlag(letter, word);
      if (problem === null) continue;
      if (problem === REFUSAL.DUPLICATE_FLAG || problem === REFUSAL.INVALID_FLAG) return problem;
      // A later word's refusal replaces an earlier one's, except BAD_FORMAT (F). Opaques count last.
      if (
        refusal === null || refusal === REFUSAL.OPAQUE_TOO_LONG ||
        (problem !== REFUSAL.BAD_FORMAT && problem !== REFUSAL.OPAQUE_TOO_LONG)
      ) refusal = problem;
    }
    return refusal;
  }

  /** Reads the key alone: of the flags only b matters. */
  readKey(firstFlag: number): Uint8Array | null {
    const request = this.#request;
    this.#clear();
    this.keyOffset = request.wordStart[KEY_WORD]!;
    this.keyLength = request.wordLength(KEY_WORD);
    if (this.keyLength > KEY_LENGTH_MAX || this.#hasOddWord(firstFlag)) return REFUSAL.BAD_FORMAT;
    const isBinary = request.wordCount > firstFlag && request.wordLength(firstFlag) === 1 &&
      this.letter(firstFlag) === FLAG.b;
    return isBinary && this.#decodeKey() !== null ? REFUSAL.BAD_FORMAT : null;
  }

  /** Starts an operation with the key, the id to compare (C) and the id to give (E). */
  beginOperation(operation: Operation): void {
    operation.begin(this.keyOffset, this.keyLength);
    operation.compare = this.compare;
    operation.compareLow = this.compareLow;
    operation.compareHigh = this.compareHigh;
    operation.explicit = this.explicit;
    operation.explicitLow = this.explicitLow;
    operation.explicitHigh = this.explicitHigh;
  }

  /** Whether a line of a reply can have the key in base64 only: so it came, and it is no word. */
  get needsBase64(): boolean {
    const { keyOffset } = this;
    return this.isBinary && !isOneWord(this.#input.bytes, keyOffset, keyOffset + this.keyLength);
  }

  /** The word with the flag's argument begins right behind its letter. */
  argumentStart(word: number): number {
    return this.#request.wordStart[word]! + 1;
  }

  /** The flag that a word is. */
  letter(word: number): number {
    return this.#input.bytes[this.#request.wordStart[word]!]!;
  }

  #clear(): void {
    this.isBinary = false;
    this.isUnframed = false;
    this.quiet = false;
    this.value = false;
    this.noUpdate = false;
    this.stale = false;
    this.empties = false;
    this.compare = false;
    this.explicit = false;
    this.vivify = false;
    this.touches = false;
    this.clientFlags = 0;
    this.mode = 0;
    this.initialLow = 0;
    this.initialHigh = 0;
    this.deltaLow = 1;
    this.deltaHigh = 0;
    this.#seenLow = 0;
    this.#seenHigh = 0;
  }

  #readFlag(letter: number, word: number): Uint8Array | null {
    if (letter < FLAG.A_FIRST || letter > FLAG.z_LAST) return REFUSAL.INVALID_FLAG;
    if (this.#isSeen(letter)) return REFUSAL.DUPLICATE_FLAG;
    switch (letter) {
      case FLAG.v:
        this.value = true;
        return null;
      case FLAG.k:
      case FLAG.s:
      case FLAG.c:
      case FLAG.f:
      case FLAG.t:
      case FLAG.h:
      case FLAG.l:
      case FLAG.P:
      case FLAG.L:
        return null;
      case FLAG.q:
        this.quiet = true;
        return null;
      case FLAG.u:
        this.noUpdate = true;
        return null;
      case FLAG.I:
        this.stale = true;
        return null;
      case FLAG.x:
        this.empties = true;
        return null;
      case FLAG.O:
        return this.#request.wordLength(word) > OPAQUE_LENGTH_MAX ? REFUSAL.OPAQUE_TOO_LONG : null;
      case FLAG.M:
        // After a bare M this is the byte that ends the word, which is no mode.
        this.mode = this.#input.bytes[this.argumentStart(word)]!;
        return null;
      case FLAG.b:
        return this.#decodeKey();
      default:
        return this.#readNumber(letter, word);
    }
  }

  /** Whether a word begins with neither a letter nor a digit: that refusal comes before all others. */
  #hasOddWord(firstFlag: number): boolean {
    for (let word = firstFlag; word < this.#request.wordCount; word++) {
      const letter = this.letter(word);
      const isDigit = letter >= 0x30 && letter <= 0x39;
      if (!isDigit && (letter < FLAG.A_FIRST || letter > FLAG.z_LAST)) return true;
    }
    return false;
  }

  #isSeen(letter: number): boolean {
    const bit = bitOf(letter);
    if (letter < FLAG.A_FIRST + 32) {
      if (this.#seenLow & bit) return true;
      this.#seenLow |= bit;
    } else {
      if (this.#seenHigh & bit) return true;
      this.#seenHigh |= bit;
    }
    return false;
  }

  #readNumber(letter: number, word: number): Uint8Array | null {
    const numbers = this.#numbers;
    const start = this.argumentStart(word);
    const end = this.#request.wordEnd[word]!;
    switch (letter) {
      case FLAG.T:
        this.touches = numbers.int32(this.#input, start, end);
        this.touchSeconds = numbers.value;
        return this.touches ? null : REFUSAL.BAD_TOKEN;
      case FLAG.N:
        this.vivify = numbers.int32(this.#input, start, end);
        this.vivifySeconds = numbers.value;
        return this.vivify ? null : REFUSAL.BAD_TOKEN;
      case FLAG.R:
        if (!numbers.int32(this.#input, start, end)) return REFUSAL.BAD_TOKEN;
        this.recacheSeconds = numbers.value;
        return null;
      case FLAG.F:
        if (!numbers.u64(this.#input, start, end) || numbers.high !== 0) return REFUSAL.BAD_FORMAT;
        this.clientFlags = numbers.low;
        return null;
      case FLAG.C:
        this.compare = numbers.u64(this.#input, start, end);
        this.compareLow = numbers.low;
        this.compareHigh = numbers.high;
        return this.compare ? null : REFUSAL.BAD_TOKEN;
      case FLAG.E:
        this.explicit = numbers.u64(this.#input, start, end);
        this.explicitLow = numbers.low;
        this.explicitHigh = numbers.high;
        return this.explicit ? null : REFUSAL.BAD_TOKEN;
      case FLAG.J:
        if (!numbers.u64(this.#input, start, end)) return REFUSAL.BAD_INITIAL;
        this.initialLow = numbers.low;
        this.initialHigh = numbers.high;
        return null;
      case FLAG.D:
        if (!numbers.u64(this.#input, start, end)) return REFUSAL.BAD_META_DELTA;
        this.deltaLow = numbers.low;
        this.deltaHigh = numbers.high;
        return null;
      default:
        return REFUSAL.INVALID_FLAG;
    }
  }

  #decodeKey(): Uint8Array | null {
    const { bytes } = this.#input;
    const length = decodeBase64(
      bytes,
      this.keyOffset,
      this.keyOffset + this.keyLength,
      bytes,
      KEY_SCRATCH_OFFSET,
    );
    if (length <= 0) return REFUSAL.BAD_BASE64;
    this.isBinary = true;
    this.keyOffset = KEY_SCRATCH_OFFSET;
    this.keyLength = length;
    return null;
  }
}
