import { MIB } from "../limits.ts";
import type { Memory } from "./memory.ts";
import { CONTROL } from "./memory.ts";

/** How far ahead of the pages in use: a store that grows by 300 MB a second needs as much in 25 milliseconds. */
const AHEAD_BYTES = 8 * MIB;
/** Not more than a page of the system, of the smallest kind. */
const TOUCH_BYTES = 4096;

/**
 * Makes the system provide memory before the store uses it. The first touch of a page costs whoever
 * does it: up to half a millisecond for one of 2 MiB that has to be cleared, and several where a
 * hypervisor has to find it first. Pages are used for the first time in their order, so who wants
 * to be ahead knows where. Beyond the memory limit nothing is touched.
 */
export class Prefault {
  readonly #memory: Memory;
  readonly #pagesAhead: number;
  /** Pages before this one have been touched. */
  #next = 0;

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#pagesAhead = Math.max(1, AHEAD_BYTES / memory.pageBytes);
  }

  /**
   * Touches the next page. Needs no mutex: it changes nothing, even where somebody uses the page already.
   *
   * @returns False when it is far enough ahead.
   */
  touchPage(): boolean {
    const { control, pageShift, pageBytes, words } = this.#memory;
    const used = control[CONTROL.PAGES_EVER_USED]!;
    const end = Math.min(control[CONTROL.MEMORY_LIMIT_PAGES]!, used + this.#pagesAhead);
    if (this.#next < used) this.#next = used;
    if (this.#next >= end) return false;
    const page = this.#next++;
    const pagesInSegment = 1 << (30 - pageShift);
    const segment = words[Math.floor(page / pagesInSegment)]!;
    const start = (page % pagesInSegment) * pageBytes;
    for (let at = start; at < start + pageBytes; at += TOUCH_BYTES) {
      Atomics.or(segment, at >>> 2, 0);
    }
    return true;
  }
}
