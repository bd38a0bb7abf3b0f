import { assert } from "../base/assert.ts";
import type { Memory } from "../memory/memory.ts";
import * as layoutModule from "../memory/request_layout.ts";

const { REQUEST_HEADER: HEADER } = layoutModule;

/** The deadline of a right that has been given up. */
const ENDED = -1;

// Hot path: no allocation.

/**
 * The right to serve rows from the cache: a deadline, which the database thread moves on whenever the database confirms
 * that no other origin has taken over. After it, the rows in the cache may be old. Who takes over waits until it has
 * passed. Needs no mutex.
 */
export class ServingRight {
  /** Milliseconds on a clock that all threads share, and that runs while the process is stopped. */
  nowMs: () => number = () => 0;
  /** The source of the right, as errors name it; undefined: the right has no end. */
  readonly source: string | undefined;
  /** The deadline, one double: 64-bit processors write and read it whole, because it is aligned. */
  readonly #deadlineMs: Float64Array;

  constructor({ options, shared }: Memory) {
    this.source = options.rows!.rightFrom;
    this.#deadlineMs = new Float64Array(shared.rowRequests, 4 * HEADER.RIGHT_UNTIL_MS, 1);
  }

  /** Whether the right ends unless it is renewed. */
  get isTimed(): boolean {
    return this.source !== undefined;
  }

  /** On the clock of `nowMs`; 0: the right has not begun; ENDED. */
  get deadlineMs(): number {
    return this.#deadlineMs[0]!;
  }

  /** Reads the clock, if the right is timed. */
  get isValid(): boolean {
    if (this.source === undefined) return this.deadlineMs !== ENDED;
    return this.nowMs() < this.deadlineMs;
  }

  /** Sets the deadline. */
  renew(deadlineMs: number): void {
    assert(!Number.isNaN(deadlineMs), "the deadline of a right is a time");
    this.#deadlineMs[0] = deadlineMs;
  }

  /** Ends the right, also one that has no deadline. */
  end(): void {
    this.renew(ENDED);
  }
}
