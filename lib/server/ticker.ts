import type { Cache } from "../../store/cache.ts";
import { writeClock } from "../../store/clock.ts";
import { Prefault } from "../../store/memory/prefault.ts";

/** How often the store's clock moves. */
const TICK_MS = 100;
/** Maintenance of one tick goes on for at most this long, slice by slice, */
const BURST_MS = 5;
/** and then again after this pause, until nothing is due. */
const PAUSE_MS = 5;

/** Moves the store's clock and does its maintenance, on the main thread, each slice under the mutex. */
export class Ticker {
  readonly #cache: Cache;
  readonly #startMs: number;
  #tick: ReturnType<typeof setInterval> | undefined;
  #more: ReturnType<typeof setTimeout> | undefined;
  readonly #ahead: Prefault;
  #moreMemory: ReturnType<typeof setTimeout> | undefined;

  constructor(cache: Cache, startMs: number) {
    this.#cache = cache;
    this.#startMs = startMs;
    this.#ahead = new Prefault(cache.memory);
  }

  start(): void {
    this.#tick = setInterval(() => {
      writeClock(this.#cache.memory, performance.now() - this.#startMs);
      if (this.#more === undefined) this.#maintain();
      if (this.#moreMemory === undefined) this.#touchMemory();
    }, TICK_MS);
  }

  stop(): void {
    clearInterval(this.#tick);
    clearTimeout(this.#more);
    clearTimeout(this.#moreMemory);
  }

  #maintain(): void {
    this.#more = undefined;
    const endMs = performance.now() + BURST_MS;
    do {
      if (!this.#slice()) return;
    } while (performance.now() < endMs);
    this.#more = setTimeout(() => this.#maintain(), PAUSE_MS);
  }

  /** Goes on, without the mutex, for as long as the store grows. */
  #touchMemory(): void {
    this.#moreMemory = undefined;
    const endMs = performance.now() + BURST_MS;
    let pages = 0;
    while (this.#ahead.touchPage()) {
      pages++;
      if (performance.now() >= endMs) break;
    }
    if (pages > 0) this.#moreMemory = setTimeout(() => this.#touchMemory(), PAUSE_MS);
  }

  /** One slice. Returns whether more is due. */
  #slice(): boolean {
    this.#cache.enter();
    const more = this.#cache.maintain();
    this.#cache.leave();
    return more;
  }
}
