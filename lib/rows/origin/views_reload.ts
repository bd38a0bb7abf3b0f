import type { TransportEvent } from "../../net/transport.ts";
import { reasonOf } from "../../process/reason.ts";
import type { PreparedViews } from "../../databases/base/backend.ts";
import { unwatchedEvents } from "../../databases/views/unwatched.ts";
import type { Views } from "../../databases/views/view.ts";

/** The steps of a reload, and where it reports. */
export interface ViewsReloadParts {
  /** Reads the file. @throws The mistakes in it. */
  readonly read: () => Views;
  /** @throws Why the database cannot answer the queries. */
  readonly prepare: (views: Views) => Promise<PreparedViews>;
  /** Serves the views from here on. @returns What the keys of both begin with. */
  readonly replace: (views: Views, prepared: PreparedViews) => Promise<readonly string[]>;
  /** Deletes the keys of both from all caches. */
  readonly expelReplaced: (prefixes: readonly string[]) => Promise<void>;
  readonly report: (event: TransportEvent) => void;
}

/**
 * Reads the file of views again. A reload begins when the one before has ended: otherwise an older file would win when
 * its queries take longer to prepare.
 */
export class ViewsReload {
  readonly #parts: ViewsReloadParts;
  #last: Promise<void> = Promise.resolve();

  constructor(parts: ViewsReloadParts) {
    this.#parts = parts;
  }

  /** Begins a reload after those before. A file with mistakes changes nothing. @returns Its end; it never rejects. */
  request(): Promise<void> {
    return this.#last = this.#last.then(() => this.#reload());
  }

  async #reload(): Promise<void> {
    const { read, prepare, replace, expelReplaced, report } = this.#parts;
    let prefixes: readonly string[];
    try {
      const next = read();
      prefixes = await replace(next, await prepare(next));
      const message = `SIGHUP: ${next.all.length} views are served, ${next.path}`;
      report({ level: "info", event: "views", message, fields: { views: next.all.length } });
      for (const event of unwatchedEvents(next)) report(event);
    } catch (error) {
      const reason = reasonOf(error);
      const message = `SIGHUP: the views stay as they are: ${reason}`;
      return report({ level: "error", event: "views_refused", message, fields: { reason } });
    }
    await expelReplaced(prefixes);
  }
}
