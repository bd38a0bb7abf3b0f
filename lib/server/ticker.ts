import type { Cache } from "../../store/cache.ts";
import { writeClock } from "../../store/clock.ts";
import { Prefault } from "../../store/setup.ts";

/** Interval of the store's clock. */
const TICK_MS = 100;
/** Longest run of maintenance slices without a pause. */
const BURST_MS = 5;
/** Pause before maintenance continues, if more is due. */
const PAUSE_MS = 5;

/**
 * Returns the milliseconds until the next tick, at the next multiple of TICK_MS. So the store's seconds begin on time,
 * and values outlive their expiry time by no more than the delay of a timer.
 */
export function msToNextTick(elapsedMs: number): number {
  return Math.ceil(TICK_MS - elapsedMs % TICK_MS);
}

/** Advances the store's clock and runs its maintenance on the main thread, each slice under the mutex. */
export class Ticker {
  readonly #cache: Cache;
  readonly #startMs: number;
  #tick: ReturnType<typeof setTimeout> | undefined;
  #maintenanceTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #prefault: Prefault;
  #prefaultTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(cache: Cache, startMs: number) {
    this.#cache = cache;
    this.#startMs = startMs;
    this.#prefault = new Prefault(cache.memory);
  }

  start(): void {
    const elapsedMs = performance.now() - this.#startMs;
    writeClock(this.#cache.memory, elapsedMs);
    this.#tick = setTimeout(() => this.#onTick(), msToNextTick(elapsedMs));
  }

  #onTick(): void {
    this.start();
    if (this.#maintenanceTimer === undefined) this.#maintain();
    if (this.#prefaultTimer === undefined) this.#prefaultSlice();
  }

  stop(): void {
    clearTimeout(this.#tick);
    clearTimeout(this.#maintenanceTimer);
    clearTimeout(this.#prefaultTimer);
  }

  #maintain(): void {
    this.#maintenanceTimer = undefined;
    const endMs = performance.now() + BURST_MS;
    do {
      if (!this.#maintainOnce()) return;
    } while (performance.now() < endMs);
    this.#maintenanceTimer = setTimeout(() => this.#maintain(), PAUSE_MS);
  }

  /** Prefaults pages without the mutex while the store grows. */
  #prefaultSlice(): void {
    this.#prefaultTimer = undefined;
    const endMs = performance.now() + BURST_MS;
    let pages = 0;
    while (this.#prefault.prefaultPage()) {
      pages++;
      if (performance.now() >= endMs) break;
    }
    if (pages > 0) this.#prefaultTimer = setTimeout(() => this.#prefaultSlice(), PAUSE_MS);
  }

  /** Runs one slice. Returns whether more is due. */
  #maintainOnce(): boolean {
    this.#cache.enter();
    const more = this.#cache.maintain();
    this.#cache.leave();
    return more;
  }
}
