import type { WorkBudget } from "./work_budget.ts";
import { type ByteRegion, type KeyBytes, latin1Text } from "../store/base/bytes.ts";

/** memcached's bound. */
const PREFIXES_MAX = 65536;
const BUCKETS = 16384;
const KEY_BYTES = 2 * 1024 * 1024;

const COUNT = 0;
const USED = 1;
const BUCKETS_WORD = 2;
const PREFIX_WORDS = 3;
const PREFIXES_WORD = BUCKETS_WORD + BUCKETS;
const COUNTS_BYTE = (PREFIXES_WORD + PREFIX_WORDS * (PREFIXES_MAX + 1) + 1) * 4 & ~7;
const COUNTS_EACH = 4;
const BYTES_BYTE = COUNTS_BYTE + COUNTS_EACH * (PREFIXES_MAX + 1) * 8;

const GET = 0;
const HIT = 1;
const SET = 2;
const DELETE = 3;

/** The counts of a prefix. */
interface PrefixCounts {
  readonly prefix: string;
  readonly get: number;
  readonly hit: number;
  readonly set: number;
  readonly delete: number;
}

/**
 * Counts by key prefix, for `stats detail`: a prefix is what stands before the first delimiter of a
 * key. All threads share one table, in a buffer that is as large as it may ever get; the system
 * gives memory to the parts that were used.
 *
 *   words     COUNT (prefixes known), USED (bytes of prefixes)
 *   buckets   first prefix of each, by number; numbers count from 1
 *   prefixes  words: next in bucket, offset and length of its bytes
 *   counters  doubles: get, hit, set, del of each prefix
 *   bytes     of all prefixes
 *
 * Written under the store's mutex. When it is full, further prefixes are not counted.
 */
export class PrefixTable {
  readonly #words: Int32Array;
  readonly #counts: Float64Array;
  readonly #bytes: Uint8Array;
  readonly #delimiter: number;
  readonly #work: WorkBudget;

  /**
   * @param delimiter One character.
   * @param work Charged for prefixes that are compared: clients can choose them so that they collide.
   */
  constructor(shared: SharedArrayBuffer, delimiter: string, work: WorkBudget) {
    this.#words = new Int32Array(shared, 0, COUNTS_BYTE >> 2);
    this.#counts = new Float64Array(shared, COUNTS_BYTE, (BYTES_BYTE - COUNTS_BYTE) >> 3);
    this.#bytes = new Uint8Array(shared, BYTES_BYTE, KEY_BYTES);
    this.#work = work;
    this.#delimiter = delimiter.charCodeAt(0) & 0xff;
  }

  static createShared(): SharedArrayBuffer {
    return new SharedArrayBuffer(BYTES_BYTE + KEY_BYTES);
  }

  countGet(key: KeyBytes, hit: boolean): void {
    const prefix = this.#find(key);
    if (prefix === 0) return;
    this.#counts[prefix * COUNTS_EACH + GET]! += 1;
    if (hit) this.#counts[prefix * COUNTS_EACH + HIT]! += 1;
  }

  countSet(key: KeyBytes): void {
    this.#counts[this.#find(key) * COUNTS_EACH + SET]! += 1;
  }

  countDelete(key: KeyBytes): void {
    this.#counts[this.#find(key) * COUNTS_EACH + DELETE]! += 1;
  }

  /** Forgets all prefixes. */
  clear(): void {
    this.#words.fill(0, 0, PREFIXES_WORD);
  }

  *[Symbol.iterator](): Generator<PrefixCounts> {
    const counts = this.#counts;
    for (let prefix = 1; prefix <= this.#words[COUNT]!; prefix++) {
      const row = prefix * COUNTS_EACH;
      yield {
        prefix: this.#text(prefix),
        get: counts[row + GET]!,
        hit: counts[row + HIT]!,
        set: counts[row + SET]!,
        delete: counts[row + DELETE]!,
      };
    }
  }

  /** The number of the key's prefix, a new one if need be; 0 (whose counters are never read) if it has no prefix. */
  #find({ input, keyOffset, keyLength }: KeyBytes): number {
    const { bytes } = input;
    let length = 0;
    let hash = 0;
    while (length < keyLength && bytes[keyOffset + length] !== this.#delimiter) {
      hash = (Math.imul(hash, 31) + bytes[keyOffset + length]!) | 0;
      length++;
    }
    if (length === keyLength) return 0;
    const bucket = BUCKETS_WORD + ((hash ^ (hash >>> 15)) & (BUCKETS - 1));
    let prefix = this.#words[bucket]!;
    while (prefix !== 0 && !this.#equals(prefix, input, keyOffset, length)) {
      this.#work.spent += 1;
      prefix = this.#words[PREFIXES_WORD + prefix * PREFIX_WORDS]!;
    }
    return prefix !== 0 ? prefix : this.#insert(bucket, input, keyOffset, length);
  }

  #equals(prefix: number, input: ByteRegion, offset: number, length: number): boolean {
    const row = PREFIXES_WORD + prefix * PREFIX_WORDS;
    if (this.#words[row + 2] !== length) return false;
    const start = this.#words[row + 1]!;
    for (let at = 0; at < length; at++) {
      if (this.#bytes[start + at] !== input.bytes[offset + at]) return false;
    }
    return true;
  }

  #insert(bucket: number, input: ByteRegion, offset: number, length: number): number {
    const words = this.#words;
    const prefix = words[COUNT]! + 1;
    const start = words[USED]!;
    if (prefix > PREFIXES_MAX || start + length > KEY_BYTES) return 0;
    words[COUNT] = prefix;
    words[USED] = start + length;
    for (let at = 0; at < length; at++) this.#bytes[start + at] = input.bytes[offset + at]!;
    const row = PREFIXES_WORD + prefix * PREFIX_WORDS;
    words[row] = words[bucket]!;
    words[row + 1] = start;
    words[row + 2] = length;
    words[bucket] = prefix;
    this.#counts.fill(0, prefix * COUNTS_EACH, (prefix + 1) * COUNTS_EACH);
    return prefix;
  }

  #text(prefix: number): string {
    const row = PREFIXES_WORD + prefix * PREFIX_WORDS;
    const start = this.#words[row + 1]!;
    return latin1Text(this.#bytes, start, this.#words[row + 2]!);
  }
}
