import { MIB } from "../limits.ts";
import type { Memory } from "./memory.ts";
import { CONTROL } from "./memory.ts";

/** How far ahead of the pages in use: a store that grows by 300 MB a second needs as much in 25 milliseconds. */
const AHEAD_BYTES = 8 * MIB;
/** The system's smallest page. */
const SYSTEM_PAGE_BYTES = 4096;

/**
 * Prefaults memory before the store uses it. The first access to a page faults: up to half a millisecond for 2 MiB
 * that the system must clear, several where a hypervisor must find the memory first. The store first uses pages in
 * ascending order, so the next ones are known. Never prefaults beyond the memory limit.
 */
export class Prefault {
  readonly #memory: Memory;
  readonly #pagesAhead: number;
  /** Pages before this one have been prefaulted. */
  #next = 0;

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#pagesAhead = Math.max(1, AHEAD_BYTES / memory.pageBytes);
  }

  /**
   * Prefaults the next page. Needs no mutex: it changes nothing, even in a page that is in use.
   *
   * @returns False when enough pages are ready.
   */
  prefaultPage(): boolean {
    const { control, pageShift, pageBytes, words } = this.#memory;
    const used = control[CONTROL.PAGES_EVER_USED]!;
    const end = Math.min(control[CONTROL.MEMORY_LIMIT_PAGES]!, used + this.#pagesAhead);
    if (this.#next < used) this.#next = used;
    if (this.#next >= end) return false;
    const page = this.#next++;
    const pagesInSegment = 1 << (30 - pageShift);
    const segment = words[Math.floor(page / pagesInSegment)]!;
    const start = (page % pagesInSegment) * pageBytes;
    for (let at = start; at < start + pageBytes; at += SYSTEM_PAGE_BYTES) {
      Atomics.or(segment, at >>> 2, 0);
    }
    return true;
  }
}
