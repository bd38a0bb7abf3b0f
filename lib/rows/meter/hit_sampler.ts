import type { Cache } from "../../../store/cache.ts";

/** What is asked of the store. */
type Inspector = Pick<Cache["inspector"], "hotKeys" | "sumOfClasses">;
/** A key, and how many sampled hits it had. */
type SampledKey = Pick<Inspector["hotKeys"]["keys"][number], "key" | "hits">;

/**
 * Draws a key of rows and views as clients read them: each hit is as likely as another one. It takes the samples that
 * the list of hot keys has got since it was looked at; a key that is read once is in it until the next samples.
 */
export class HitSampler {
  /** Hits on rows and views so far, as far as the samples tell them from those on other items. */
  hits = 0;
  readonly #inspector: Inspector;
  readonly #isRow: (key: string) => boolean;
  #before: ReadonlyMap<string, number> = new Map();
  #all: number;
  /** Those of the last samples; until there are some, all that are known. */
  #recent: readonly SampledKey[] = [];

  constructor(inspector: Inspector, isRow: (key: string) => boolean) {
    this.#inspector = inspector;
    this.#isRow = isRow;
    this.#all = inspector.sumOfClasses("get_hits");
  }

  /** Takes the samples since the last call. */
  update(): void {
    const { keys } = this.#inspector.hotKeys;
    const rows = keys.filter(({ key, hits }) => hits > 0 && this.#isRow(key));
    const recent = rows.map(({ key, hits }): SampledKey => {
      const before = this.#before.get(key) ?? 0;
      // The counts of a list are halved now and then.
      return { key, hits: hits >= before ? hits - before : 0 };
    }).filter(({ hits }) => hits > 0);
    if (recent.length > 0 || this.#recent.length === 0) this.#recent = recent;
    this.#before = new Map(rows.map(({ key, hits }) => [key, hits]));
    const all = this.#inspector.sumOfClasses("get_hits");
    const sampled = sumOf(keys);
    const share = sampled === 0 ? 1 : sumOf(rows) / sampled;
    this.hits += Math.max(0, all - this.#all) * share;
    this.#all = all;
  }

  /** @returns Null: no client has read a row, as far as is known. */
  draw(): string | null {
    let left = Math.random() * sumOf(this.#recent);
    return this.#recent.find(({ hits }) => (left -= hits) < 0)?.key ?? null;
  }
}

function sumOf(keys: readonly SampledKey[]): number {
  return keys.reduce((sum, { hits }) => sum + hits, 0);
}
