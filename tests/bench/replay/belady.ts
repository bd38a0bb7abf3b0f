import type { ReplayOptions } from "./replay.ts";
import type { Trace } from "./traces.ts";

/** Items looked at for one eviction. */
const SAMPLE = 32;

/**
 * The miss ratio of a cache that knows the future: of a sample it evicts the item with the largest
 * product of size and time until its next use (Belady's rule, weighed by size). No cache without
 * that knowledge gets there; TTLs are not counted.
 */
export function foresee(
  trace: Trace,
  options: ReplayOptions,
  limitBytes: number,
  overheadBytes: number,
): number {
  const { copies } = options;
  const next = nextUses(trace);
  const place = new Int32Array(trace.keyCount * copies).fill(-1);
  const cached = new Int32Array(trace.keyCount * copies);
  const nextUse = new Int32Array(trace.keyCount * copies);
  const sizes = new Int32Array(trace.keyCount * copies);
  let count = 0;
  let used = 0;
  let gets = 0;
  let misses = 0;
  let seed = 1;
  for (let row = 0; row < trace.rows; row++) {
    const valueSize = Math.max(1, Math.floor(trace.valueSizes[row]! * options.valueScale));
    if (valueSize > options.maxValue) continue;
    const bytes = valueSize + trace.keySizes[row]! + overheadBytes;
    for (let copy = 0; copy < copies; copy++) {
      const key = trace.keys[row]! * copies + copy;
      gets++;
      nextUse[key] = next[row]!;
      if (place[key] !== -1) continue;
      misses++;
      sizes[key] = bytes;
      place[key] = count;
      cached[count++] = key;
      used += bytes;
      while (used > limitBytes) {
        let worst = 0;
        let worstCost = -1;
        for (let look = 0; look < SAMPLE; look++) {
          seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
          const at = (seed >>> 0) % count;
          const candidate = cached[at]!;
          const cost = (nextUse[candidate]! - row) * sizes[candidate]!;
          if (cost > worstCost) {
            worst = at;
            worstCost = cost;
          }
        }
        const victim = cached[worst]!;
        used -= sizes[victim]!;
        place[victim] = -1;
        const last = cached[--count]!;
        if (last !== victim) {
          cached[worst] = last;
          place[last] = worst;
        }
      }
    }
  }
  return misses / gets;
}

/** For each row, the row in which its key is asked for again; far away if never. */
function nextUses(trace: Trace): Int32Array {
  const next = new Int32Array(trace.rows);
  const seen = new Int32Array(trace.keyCount).fill(0x7fffffff);
  for (let row = trace.rows - 1; row >= 0; row--) {
    const key = trace.keys[row]!;
    next[row] = seen[key]!;
    seen[key] = row;
  }
  return next;
}
