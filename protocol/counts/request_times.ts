import { CounterRows } from "../../store/base/counter_rows.ts";

// Hot path: `begin` runs for every request. No allocation.

/** Kinds of requests, for histograms of their latency. */
export const REQUEST_KINDS = [
  "get",
  "set",
  "delete",
  "arithmetic",
  "touch",
  "lock",
  "lease",
  "token",
  "other",
] as const;

type RequestKind = typeof REQUEST_KINDS[number];

/** The beginnings of commands' names, in both protocols, and their kinds. The first that fits decides. */
const KIND_OF_COMMAND: readonly (readonly [pattern: RegExp, kind: RequestKind])[] = [
  [/^(?:get-?ss|deletess|lease)/i, "lease"],
  [/^(?:token|u(?:get|put|delete)$)/i, "token"],
  [/^(?:(?:un)?lock|la[gk]|rau)/i, "lock"],
  [/^(?:gat|touch|rgat)/i, "touch"],
  [/^(?:r?get|mg$)/i, "get"],
  [/^(?:r?set|add|cas|replace|r?append|r?prepend|ms$)/i, "set"],
  [/^(?:r?delete|md$)/i, "delete"],
  [/^(?:r?incr|r?decr|ma$)/i, "arithmetic"],
];

/** Returns the index in REQUEST_KINDS of a command. */
export function kindOf(command: string): number {
  const kind = KIND_OF_COMMAND.find(([pattern]) => pattern.test(command))?.[1] ?? "other";
  return REQUEST_KINDS.indexOf(kind);
}

/** Rounds of fewer sockets are measured one of ROUNDS_PER_SAMPLE, within a tick. */
const SMALL_ROUND_SOCKETS = 8;
const ROUNDS_PER_SAMPLE = 4;
const ROUND = 0;
const LATE = 1;
/** Stands for no request. */
export const NO_REQUEST = -1;
/** Buckets of one power of two: a bucket is at most an eighth wider than its lower bound. */
const STEPS = 8;
const STEPS_SHIFT = 3;
/** The last buckets hold latencies of 2^26 microseconds, 67 seconds, and more. */
const EXPONENT_MAX = 26;
const BUCKETS = (EXPONENT_MAX - STEPS_SHIFT + 2) * STEPS;
const US_MAX = 2 ** (EXPONENT_MAX + 1) - 1;
/** Behind the buckets of a kind: the sum of its latencies. */
const SUM = BUCKETS;
const KIND_WIDTH = BUCKETS + 1;
const WIDTH = REQUEST_KINDS.length * KIND_WIDTH;

/** Latencies of one kind of request. */
export interface LatencyHistogram {
  /** Requests by bucket; `bucketBoundUs` is a bucket's upper bound. */
  readonly counts: readonly number[];
  readonly sumUs: number;
}

/**
 * The latency of requests, from the read that brought a request's last byte to the moment its reply is given to the
 * kernel. The transport reads the clock once for the requests that it reads together, and once for the replies that it
 * sends together, so a request costs two additions. The clock would be a hundredth of a round of one request or more:
 * of small rounds that follow each other quickly it measures one of ROUNDS_PER_SAMPLE, and the others count as the last
 * one measured, so that all requests are counted. Waits are always measured.
 *
 * A conversation may leave a request unanswered: it waits, or its slice is over. `suspend` returns that request for
 * the next `feed`. The transport remembers when it was read, and calls `beginLate` before, `endLate` after.
 */
export class RequestTimes {
  /** Sets `clockUs[0]` to the transport's clock in microseconds. A result would be an object on the heap. */
  readClock: () => void = () => {};
  readonly clockUs = new Float64Array(1);
  readonly #rows: CounterRows;
  readonly #round = new Int32Array(REQUEST_KINDS.length);
  readonly #late = new Int32Array(REQUEST_KINDS.length);
  /** Requests answered and not recorded, by kind: those of the round, or those of a late conversation. */
  #answered = this.#round;
  /** The kind of the request in progress. */
  #current = NO_REQUEST;
  /** When the requests were read: those of the round, and those of the late conversation. */
  readonly #startUs = new Float64Array(2);
  #isAny = false;
  /** Whether the clock was read for the round, and what decides on the next one. */
  #isMeasured = false;
  #roundsSkipped = 0;
  #measuredAtTick = NaN;
  /** The last latency measured for each kind in a round, in microseconds. */
  readonly #lastUs = new Float64Array(REQUEST_KINDS.length).fill(NaN);
  #lastOfAnyUs = 0;

  /** @param threadIndex Whose requests are counted here. */
  constructor(shared: SharedArrayBuffer, threadIndex: number) {
    this.#rows = new CounterRows(shared, WIDTH, threadIndex);
  }

  static createShared(threads: number): SharedArrayBuffer {
    return CounterRows.createShared(threads, WIDTH);
  }

  // --- requests ----------------------------------------------------------------------------------

  /** A request of this kind begins. It counts as answered until `suspend` says otherwise. */
  begin(kind: number): void {
    this.#answered[kind]! += 1;
    this.#current = kind;
  }

  /** The request in progress will be executed, and counted, once more. */
  takeBack(): void {
    this.#answered[this.#current]! -= 1;
    this.#current = NO_REQUEST;
  }

  /** Continues with a request that `suspend` returned. */
  resume(request: number): void {
    if (request !== NO_REQUEST) this.begin(request);
  }

  /**
   * Ends a slice.
   *
   * @param isAnswered Whether the request in progress has been answered.
   * @returns For `resume`: the request that has not been answered, or none.
   */
  suspend(isAnswered: boolean): number {
    const request = isAnswered ? NO_REQUEST : this.#current;
    if (request !== NO_REQUEST) this.#answered[request]! -= 1;
    this.#current = NO_REQUEST;
    this.#isAny = true;
    return request;
  }

  // --- transports --------------------------------------------------------------------------------

  /** When the requests that are executed now were read. */
  get startUs(): number {
    if (this.#answered === this.#late) return this.#startUs[LATE]!;
    if (!this.#isMeasured) this.#measure();
    return this.#startUs[ROUND]!;
  }

  /**
   * The requests of a round are going to be read.
   *
   * @param sockets How many sockets are ready; left out: the round is measured.
   * @param tick A number that changes at least every second: the first round behind a change is measured.
   */
  beginRound(sockets = SMALL_ROUND_SOCKETS, tick = 0): void {
    this.#isMeasured = sockets >= SMALL_ROUND_SOCKETS || tick !== this.#measuredAtTick ||
      ++this.#roundsSkipped === ROUNDS_PER_SAMPLE;
    if (!this.#isMeasured) return;
    this.#measuredAtTick = tick;
    this.#measure();
  }

  #measure(): void {
    this.#isMeasured = true;
    this.#roundsSkipped = 0;
    this.readClock();
    this.#startUs[ROUND] = this.clockUs[0]!;
  }

  /** The replies to the requests of the round have been sent. */
  record(): void {
    if (!this.#isAny) return;
    this.#isAny = false;
    if (this.#isMeasured) this.#record(this.#round, ROUND);
    else this.#recordAsBefore();
  }

  /** Requests follow that were read earlier. */
  beginLate(startUs: number): void {
    this.#startUs[LATE] = startUs;
    this.#answered = this.#late;
  }

  /** The replies to late requests are being sent. */
  endLate(): void {
    this.#answered = this.#round;
    this.#record(this.#late, LATE);
  }

  #record(answered: Int32Array, which: number): void {
    this.readClock();
    const us = Math.max(0, this.clockUs[0]! - this.#startUs[which]!);
    const bucket = bucketOf(us);
    const own = this.#rows.own;
    for (let kind = 0; kind < answered.length; kind++) {
      const count = answered[kind]!;
      if (count === 0) continue;
      answered[kind] = 0;
      if (which === ROUND) this.#lastUs[kind] = this.#lastOfAnyUs = us;
      own[kind * KIND_WIDTH + bucket]! += count;
      own[kind * KIND_WIDTH + SUM]! += count * us;
    }
  }

  /** Records a round that was not measured. */
  #recordAsBefore(): void {
    const answered = this.#round;
    const own = this.#rows.own;
    for (let kind = 0; kind < answered.length; kind++) {
      const count = answered[kind]!;
      if (count === 0) continue;
      const last = this.#lastUs[kind]!;
      const us = Number.isNaN(last) ? this.#lastOfAnyUs : last;
      answered[kind] = 0;
      own[kind * KIND_WIDTH + bucketOf(us)]! += count;
      own[kind * KIND_WIDTH + SUM]! += count * us;
    }
  }

  // --- statistics --------------------------------------------------------------------------------

  /** The latencies of one kind, of all threads. @param kind An index in REQUEST_KINDS. */
  histogram(kind: number): LatencyHistogram {
    const counts = Array.from(
      { length: BUCKETS },
      (_, bucket) => this.#rows.sum(kind * KIND_WIDTH + bucket),
    );
    return { counts, sumUs: this.#rows.sum(kind * KIND_WIDTH + SUM) };
  }

  /** Sets all counts of all threads to 0. */
  reset(): void {
    this.#rows.reset();
  }
}

function bucketOf(us: number): number {
  if (!(us >= STEPS)) return us > 0 ? us | 0 : 0;
  const whole = Math.min(us, US_MAX) | 0;
  const shift = 31 - Math.clz32(whole) - STEPS_SHIFT;
  return (shift + 1) * STEPS + ((whole >> shift) & (STEPS - 1));
}

/** Returns the upper bound of a bucket, in microseconds: latencies in it are below. */
export function bucketBoundUs(bucket: number): number {
  if (bucket < STEPS) return bucket + 1;
  const shift = Math.floor(bucket / STEPS) - 1;
  return (STEPS + bucket % STEPS + 1) * 2 ** shift;
}

/** Returns the sum of histograms. */
export function sumOfHistograms(histograms: readonly LatencyHistogram[]): LatencyHistogram {
  const counts = new Array<number>(BUCKETS).fill(0);
  let sumUs = 0;
  for (const histogram of histograms) {
    sumUs += histogram.sumUs;
    for (const [bucket, count] of histogram.counts.entries()) counts[bucket]! += count;
  }
  return { counts, sumUs };
}

/** Returns how many requests a histogram has. */
export function countOf({ counts }: Pick<LatencyHistogram, "counts">): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/**
 * Returns the latency in microseconds that a share of the requests stays below; 0 without requests.
 *
 * @param share Above 0, at most 1.
 */
export function quantileUs({ counts }: Pick<LatencyHistogram, "counts">, share: number): number {
  const rank = Math.ceil(countOf({ counts }) * share);
  if (rank === 0) return 0;
  let seen = 0;
  const bucket = counts.findIndex((count) => (seen += count) >= rank);
  return bucketBoundUs(bucket);
}
