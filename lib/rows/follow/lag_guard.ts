import type { TransportEvent } from "../../net/transport.ts";
import { reasonOf } from "../../process/reason.ts";

/** How far behind the log is. */
interface Lag {
  readonly lagMs: number;
  /** Whether a moment is known whose changes are all applied. */
  readonly hasCaughtUp: boolean;
}

/** A listed cache. */
interface ListedCache {
  readonly name: string;
  /** @throws When it has not confirmed. */
  quarantine(on: boolean): Promise<void>;
}

/** Where rows are kept. */
export interface Suspender {
  /** Whether this server and its nodes may keep what they read from now on. */
  suspend(isSuspended: boolean): void;
  /** Removes all rows here, from nodes and from listed caches. */
  dropRows(): Promise<void>;
  caches(): readonly ListedCache[];
  /** Calls a function while no cache joins, leaves or is emptied. */
  whileUnchanged(act: () => Promise<void>): Promise<void>;
}

/** `--lag-quarantine`: while the lag is too long, no row is kept anywhere. */
export class LagGuard {
  readonly #lag: Lag;
  readonly #lagMsMax: number;
  readonly #suspender: Suspender;
  readonly #report: (event: TransportEvent) => void;
  #isSuspended = false;
  #isBusy = false;
  /** Names of caches that are in quarantine; null: all may be, since an earlier origin. */
  #quarantined: ReadonlySet<string> | null = null;
  /** Caches whose failure was reported. */
  readonly #failed = new Set<string>();

  constructor(
    lag: Lag,
    lagMsMax: number,
    suspender: Suspender,
    report: (event: TransportEvent) => void,
  ) {
    this.#lag = lag;
    this.#lagMsMax = lagMsMax;
    this.#suspender = suspender;
    this.#report = report;
  }

  /** To be called about once a second. */
  async watch(): Promise<void> {
    const { lagMs, hasCaughtUp } = this.#lag;
    const isLate = lagMs > this.#lagMsMax;
    if (isLate !== this.#isSuspended) this.#suspend(isLate, lagMs);
    if (this.#isBusy || !isLate && !hasCaughtUp) return;
    this.#isBusy = true;
    // Also those that are in quarantine: a cache that joins or is emptied leaves it.
    await this.#suspender.whileUnchanged(() => this.#setAll(isLate));
    this.#isBusy = false;
  }

  #suspend(isLate: boolean, lagMs: number): void {
    this.#isSuspended = isLate;
    this.#suspender.suspend(isLate);
    if (isLate) void this.#suspender.dropRows();
    this.#report({
      level: isLate ? "error" : "info",
      event: isLate ? "lag_quarantine_on" : "lag_quarantine_off",
      message: isLate
        ? `changes of rows have not been applied for ${lagMs} ms: no row is cached`
        : "changes of rows are applied again: rows are cached",
      fields: { lag_ms: lagMs },
    });
  }

  async #setAll(on: boolean): Promise<void> {
    const caches = this.#suspender.caches();
    const due = caches.filter(({ name }) => on || (this.#quarantined?.has(name) ?? true));
    const done = await Promise.all(due.map((cache) => this.#set(cache, on)));
    const left = due.filter((_, index) => on || !done[index]);
    this.#quarantined = new Set(left.map(({ name }) => name));
  }

  /** @returns Whether the cache has confirmed. */
  async #set(cache: ListedCache, on: boolean): Promise<boolean> {
    const { name } = cache;
    try {
      await cache.quarantine(on);
      this.#failed.delete(name);
      return true;
    } catch (error) {
      if (!this.#failed.has(name)) this.#reportFailure(name, on, reasonOf(error));
      this.#failed.add(name);
      return false;
    }
  }

  #reportFailure(cache: string, on: boolean, reason: string): void {
    this.#report({
      level: "error",
      event: "lag_quarantine_failed",
      message: `cannot ${on ? "begin" : "end"} the quarantine of a cache: ${reason}; retrying`,
      fields: { cache, reason },
    });
  }
}
