import { assert } from "../base/assert.ts";

// Hot path: no allocation.

/** No record. */
const NONE = 0;

/** The places of an `AgeList`'s links, in words. */
export interface AgeLinks {
  /** The start that record 0 would have, and the length of a record. */
  readonly start: number;
  readonly recordWords: number;
  /** In a record: the next newer one, and the next older one. */
  readonly newer: number;
  readonly older: number;
}

/** A list of records in shared memory in the order of their age. The caller holds the mutex. */
export class AgeList {
  readonly #header: Int32Array;
  readonly #oldest: number;
  readonly #words: Int32Array;
  readonly #newer: number;
  readonly #older: number;
  readonly #recordWords: number;

  /**
   * @param header Has the oldest record at word `oldest`, the newest one behind it. Zeros are an empty list.
   * @param words Has the records.
   */
  constructor(header: Int32Array, oldest: number, words: Int32Array, links: AgeLinks) {
    this.#header = header;
    this.#oldest = oldest;
    this.#words = words;
    this.#newer = links.start + links.newer;
    this.#older = links.start + links.older;
    this.#recordWords = links.recordWords;
  }

  /** The record that was added first, or 0. */
  get oldest(): number {
    return this.#header[this.#oldest]!;
  }

  /** The record that was added last, or 0. */
  get newest(): number {
    return this.#header[this.#oldest + 1]!;
  }

  /** The record that was added next, or 0. */
  newer(record: number): number {
    return this.#words[this.#newer + record * this.#recordWords]!;
  }

  /** The record that was added before, or 0. */
  older(record: number): number {
    return this.#words[this.#older + record * this.#recordWords]!;
  }

  /** Adds a record as the newest. */
  add(record: number): void {
    const { newest } = this;
    this.#link(newest, record);
    this.#link(record, NONE);
  }

  remove(record: number): void {
    const older = this.older(record);
    const newer = this.newer(record);
    assert((older === NONE ? this.oldest : this.newer(older)) === record, "a record is listed");
    assert((newer === NONE ? this.newest : this.older(newer)) === record, "links of ages agree");
    this.#link(older, newer);
  }

  /** Makes two records neighbours. NONE stands for the end of the list. */
  #link(older: number, newer: number): void {
    if (older === NONE) this.#header[this.#oldest] = newer;
    else this.#words[this.#newer + older * this.#recordWords] = newer;
    if (newer === NONE) this.#header[this.#oldest + 1] = older;
    else this.#words[this.#older + newer * this.#recordWords] = older;
  }
}
