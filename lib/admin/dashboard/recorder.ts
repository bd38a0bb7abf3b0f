import { History, type HistoryRow, shortened } from "./history.ts";
import { COLUMNS, rowBetween, type Snapshot } from "./series.ts";

const SECONDS_KEPT = 3600;
const MINUTES_KEPT = 24 * 60;
const TICK_MS = 1000;
const MINUTE_MS = 60_000;

/** Keeps the past of the plots: an hour by second and a day by minute. Tells pages of every second. */
export class Recorder {
  readonly #take: (atMs: number) => Snapshot;
  readonly #seconds = new History(COLUMNS.length, SECONDS_KEPT);
  readonly #minutes = new History(COLUMNS.length, MINUTES_KEPT);
  readonly #listeners = new Set<(row: HistoryRow) => void>();
  #second: Snapshot;
  #minute: Snapshot;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** @param take Reads the statistics. */
  constructor(take: (atMs: number) => Snapshot) {
    this.#take = take;
    this.#second = this.#minute = take(Date.now());
  }

  start(): void {
    this.#timer = setInterval(() => this.tick(Date.now()), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Adds the second that ends now, and the minute if it is over. @param nowMs Unix time. */
  tick(nowMs: number): void {
    const now = this.#take(nowMs);
    const values = rowBetween(this.#second, now);
    this.#second = now;
    const unixSec = Math.round(nowMs / 1000);
    this.#seconds.add(unixSec, values);
    if (nowMs - this.#minute.atMs >= MINUTE_MS) {
      this.#minutes.add(unixSec, rowBetween(this.#minute, now));
      this.#minute = now;
    }
    const row: HistoryRow = [unixSec, ...values.map(shortened)];
    for (const listener of this.#listeners) listener(row);
  }

  /** Calls back with each second's row. @returns A function that ends it. */
  listen(listener: (row: HistoryRow) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The rows of the last hour, and those of the last day. */
  get past(): { seconds: HistoryRow[]; minutes: HistoryRow[] } {
    return { seconds: this.#seconds.rows(), minutes: this.#minutes.rows() };
  }
}
