import type { Found, PreparedViews, ViewKey } from "../../databases/base/backend.ts";
import { type BrokenView, Views } from "../../databases/views/view.ts";

/** The views that an origin serves now. */
export class ActiveViews {
  readonly counts = { reads: 0, problems: 0 };
  #views = Views.NONE;
  #prepared: PreparedViews | null = null;

  get size(): number {
    return this.#views.all.length;
  }

  /** Those that no longer fit the schema, each with one reason. */
  get broken(): readonly BrokenView[] {
    const broken = this.#prepared?.broken ?? [];
    return broken.filter(({ view }, index) =>
      broken.findIndex((each) => each.view === view) === index
    );
  }

  /** Serves others from here on. @returns What the keys of both begin with. */
  async replace(views: Views, prepared: PreparedViews): Promise<readonly string[]> {
    const before = this.#prepared;
    const prefixes = new Set([...this.#views.prefixes, ...views.prefixes]);
    this.#views = views;
    this.#prepared = prepared;
    await before?.close();
    return [...prefixes];
  }

  /** Returns the view that a key belongs to; null: it belongs to a row. */
  find(key: string): ViewKey | null {
    return this.size === 0 ? null : this.#views.find(key);
  }

  /** Why a key cannot be written; null: it can. */
  refusalOf(key: string): string | null {
    const found = this.find(key);
    return found && `the keys ${found.view.name} are of a view, which cannot be written`;
  }

  /** `PreparedViews.readMany` */
  async read(keys: readonly ViewKey[]): Promise<readonly Found[]> {
    this.counts.reads += keys.length;
    const found = await this.#prepared!.readMany(keys);
    this.counts.problems += found.filter(({ problem }) => problem !== undefined).length;
    return found;
  }

  async close(): Promise<void> {
    await this.#prepared?.close();
    this.#prepared = null;
  }
}
