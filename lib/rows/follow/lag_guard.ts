import type { TransportEvent } from "../../net/transport.ts";

/** Where rows are kept. */
export interface Suspender {
  /** Whether this server and its nodes may keep what they read from now on. */
  suspend(isSuspended: boolean): void;
  /** Removes all rows here and from nodes. */
  dropRows(): Promise<void>;
}

/** `--lag-quarantine`: while the lag is too long, no row is kept anywhere. */
export class LagGuard {
  readonly #lag: { readonly lagMs: number };
  readonly #lagMsMax: number;
  readonly #suspender: Suspender;
  readonly #report: (event: TransportEvent) => void;
  #isSuspended = false;

  /** @param lag How far behind the log is. */
  constructor(
    lag: { readonly lagMs: number },
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
  watch(): void {
    const { lagMs } = this.#lag;
    const isLate = lagMs > this.#lagMsMax;
    if (isLate === this.#isSuspended) return;
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
}
