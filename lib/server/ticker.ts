import type { Cache } from "../../store/cache.ts";
import { writeClock } from "../../store/clock.ts";

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

  constructor(cache: Cache, startMs: number) {
    this.#cache = cache;
    this.#startMs = startMs;
  }

  start(): void {
    this.#tick = setInterval(() => {
      writeClock(this.#cache.memory, performance.now() - this.#startMs);
      if (this.#more === undefined) this.#maintain();
    }, TICK_MS);
  }

  stop(): void {
    clearInterval(this.#tick);
    clearTimeout(this.#more);
  }

  #maintain(): void {
    this.#more = undefined;
    const endMs = performance.now() + BURST_MS;
    do {
      if (!this.#slice()) return;
    } while (performance.now() < endMs);
    this.#more = setTimeout(() => this.#maintain(), PAUSE_MS);
  }

  /** One slice. Returns whether more is due. */
  #slice(): boolean {
    this.#cache.enter();
    const more = this.#cache.maintain();
    this.#cache.leave();
    return more;
  }
}
