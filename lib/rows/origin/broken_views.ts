import type { TransportEvent } from "../../net/transport.ts";
import type { BrokenView } from "../../databases/views/view.ts";

type Report = (event: TransportEvent) => void;

/** Tells operators which views are not cached, because they no longer fit the schema. */
export class BrokenViews {
  readonly #report: Report;
  /** Reasons by the views' names. */
  #told: ReadonlyMap<string, string> = new Map();

  constructor(report: Report) {
    this.#report = report;
  }

  /** Why `/health` is not well; null: every view is cached. */
  get problem(): string | null {
    const [first, ...others] = this.#told;
    if (first === undefined) return null;
    const more = others.length === 0 ? "" : `, and ${others.length} more`;
    return `view ${first[0]}${more}: not cached, ${first[1]}`;
  }

  /** Reports the views that are broken since the last call, and those that are cached again. */
  watch(broken: readonly BrokenView[]): void {
    const now = new Map(broken.map(({ view, reason }) => [view.name, reason]));
    for (const [view, reason] of now) {
      if (this.#told.get(view) === reason) continue;
      const message =
        `view ${view} is not cached, and read from the database where its query runs: ${reason}`;
      this.#report({ level: "error", event: "view_broken", message, fields: { view, reason } });
    }
    for (const view of this.#told.keys()) {
      if (now.has(view)) continue;
      const message = `view ${view} is cached again`;
      this.#report({ level: "info", event: "view_cached", message, fields: { view } });
    }
    this.#told = now;
  }
}
