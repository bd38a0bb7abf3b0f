import type { Memory } from "../../../store/setup.ts";
import type { Libc } from "./libc.ts";
import { addressOf } from "./iovec.ts";

const HUGE_PAGE_BYTES = 2 * 1024 * 1024;
const MADV_HUGEPAGE = 14;

/**
 * Asks the kernel for large pages under the store, as `memcached -L` does: a key's bucket and item
 * lie anywhere in it, and with small pages most of the time of a lookup goes into translating
 * addresses. Memory is still taken only as it is used (see store/memory/prefault.ts), but 2 MiB at a
 * time: what lies beyond `-m` is left out, so that the last of them does not exceed it. Without
 * effect where the kernel has none, or for stores smaller than one.
 */
export function adviseHugePages(libc: Libc, memory: Memory): void {
  let left = memory.limitBytes;
  for (const { bytes } of memory.segments) {
    const address = addressOf(bytes);
    const start = (HUGE_PAGE_BYTES - address % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    const length = Math.min(bytes.length, left) - start;
    left -= bytes.length;
    const whole = length - length % HUGE_PAGE_BYTES;
    if (whole <= 0) continue;
    libc.calls.madvise(bytes.subarray(start, start + whole), whole, MADV_HUGEPAGE);
  }
}
