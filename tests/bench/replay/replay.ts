import type { Trace } from "./traces.ts";

/** A cache that a trace is replayed against. Keys are numbers, dense from 0, unlike ones for unlike traces. */
export interface ReplayTarget {
  /** Returns whether the key was found. */
  get(key: number, keySize: number, valueSize: number): boolean;
  /** Stores after a miss; `ttlSeconds` 0: for good. False when it was refused. */
  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean;
  /**
   * Time passes; called before every window. `milliseconds` is of the trace's clock, scaled, or 0
   * when it is not kept.
   */
  tick(milliseconds: number): void;
}

/** Options of a replay. Names and meanings are those of the project's trace replayer. */
export interface ReplayOptions {
  readonly copies: number;
  readonly valueScale: number;
  /** Rows with larger values, after scaling, are skipped. */
  readonly maxValue: number;
  /** Use the TTLs. */
  readonly ttl: boolean;
  /** Speed relative to the trace's clock, which also divides TTLs; 0: the clock is ignored. */
  readonly timeScale: number;
  /** Requests in flight. */
  readonly batch: number;
}

export const REPLAY_DEFAULTS: ReplayOptions = {
  copies: 1,
  valueScale: 1,
  maxValue: 1_000_000,
  ttl: false,
  timeScale: 0,
  batch: 256,
};

export interface ReplayResult {
  readonly gets: number;
  readonly misses: number;
  readonly refused: number;
}

/**
 * Replays a trace in windows: first all gets of a window, then a set for every key that missed. A second get of such a
 * key waits for the next window, so that a window never counts one cold key twice.
 *
 * @param firstKey Added to key numbers, so that a second trace has keys of its own.
 */
export function replay(
  trace: Trace,
  target: ReplayTarget,
  options: ReplayOptions,
  firstKey = 0,
): ReplayResult {
  const { copies, batch, timeScale, valueScale, maxValue } = options;
  const missedIn = new Int32Array(trace.keyCount * copies).fill(-1);
  const startSec = trace.rows > 0 ? trace.seconds[0]! : 0;
  const sizeOf = (row: number): number => scaled(trace.valueSizes[row]!, valueScale);
  // A request is a row of the trace and a copy of its key, as one number.
  const rowOf = (request: number): number => Math.floor(request / copies);
  const keyOf = (request: number): number =>
    trace.keys[rowOf(request)]! * copies + request % copies;
  let carry: number[] = [];
  let row = 0;
  let gets = 0;
  let misses = 0;
  let refused = 0;
  let now = 0;
  for (let turn = 0; row < trace.rows || carry.length > 0; turn++) {
    const window = carry;
    const fills: number[] = [];
    carry = [];
    for (; window.length < batch && row < trace.rows; row++) {
      if (sizeOf(row) > maxValue) continue;
      if (timeScale > 0) now = (trace.seconds[row]! - startSec) * 1000 / timeScale;
      for (let copy = 0; copy < copies; copy++) window.push(row * copies + copy);
    }
    target.tick(now);
    for (const request of window) {
      const [of, key] = [rowOf(request), keyOf(request)];
      const isCold = missedIn[key] === turn;
      if (target.get(firstKey + key, trace.keySizes[of]!, sizeOf(of))) {
        gets++;
      } else if (isCold) {
        carry.push(request);
      } else {
        missedIn[key] = turn;
        gets++;
        misses++;
        fills.push(request);
      }
    }
    for (const request of fills) {
      const of = rowOf(request);
      const ttlSec = ttlOf(trace.ttlSeconds[of]!, options);
      const key = firstKey + keyOf(request);
      if (!target.set(key, trace.keySizes[of]!, sizeOf(of), ttlSec)) refused++;
    }
  }
  return { gets, misses, refused };
}

function scaled(valueSize: number, scale: number): number {
  return scale === 1 ? valueSize : Math.max(1, Math.floor(valueSize * scale));
}

/** Python's round, to even at a half, as the trace replayer has it. */
function ttlOf(ttlSeconds: number, options: ReplayOptions): number {
  if (!options.ttl || ttlSeconds === 0) return 0;
  if (options.timeScale === 0) return ttlSeconds;
  const whole = Math.floor(ttlSeconds / options.timeScale);
  const rest = ttlSeconds / options.timeScale - whole;
  const up = rest > 0.5 || (rest === 0.5 && whole % 2 === 1);
  return Math.max(1, up ? whole + 1 : whole);
}
