import type { TransportEvent } from "./transport.ts";

/** After EMFILE, ENFILE, ENOBUFS or ENOMEM from accept, the next try waits this long. */
export const ACCEPT_PAUSE_MS = 50;
const REPORT_INTERVAL_MS = 60_000;

/** Reports failed accepts: the first one at once, further ones together, at most once a minute. */
export class AcceptFailures {
  readonly #report: (event: TransportEvent) => void;
  readonly #connectionOption: string;
  #reportedAtMs = -Infinity;
  /** Failures since the last report. */
  #count = 0;

  /** @param connectionOption The option that bounds the connections. */
  constructor(report: (event: TransportEvent) => void, connectionOption = "-c") {
    this.#report = report;
    this.#connectionOption = connectionOption;
  }

  /**
   * Counts an accept() that lacked descriptors, or memory for sockets.
   *
   * @param code The operating system's name of the shortage, like `EMFILE`.
   * @param nowMs On a clock that never goes back.
   */
  add(code: string, nowMs: number): void {
    this.#count++;
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return;
    const times = this.#count === 1 ? "" : ` (${this.#count} times since the last message)`;
    this.#report({
      level: "warning",
      event: "accept_failed",
      message:
        `cannot accept connections: ${code}${times}; raise the limit of open files (ulimit -n) ` +
        `or lower ${this.#connectionOption}; retrying`,
      fields: { reason: code, count: this.#count },
    });
    this.#reportedAtMs = nowMs;
    this.#count = 0;
  }
}
