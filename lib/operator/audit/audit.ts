import type { Cached, CacheView } from "./cache_view.ts";
import type { Committed, OriginView } from "./origin_view.ts";

/** A cached value that is not the committed one. */
export interface Difference {
  readonly key: string;
  readonly cached: Cached;
  readonly committed: Committed;
}

/** The keys of a cache, by what the audit found. */
export interface AuditCounts {
  /** Listed by the cache. */
  keys: number;
  equal: number;
  different: number;
  /** Removed between the list and a look. */
  gone: number;
  /** Stored again between every two looks. */
  unsettled: number;
  /** No row's: the text protocol cannot carry the key. */
  foreign: number;
}

/** Receives the findings while the audit runs. */
export interface AuditObserver {
  difference(difference: Difference): void;
  /** Called after every batch. */
  progress(keys: number): void;
}

/** Keys that are looked at together: a request line has at most 16 KiB. */
const BATCH_KEYS = 64;
/** Looks at a key that is stored again all the time. */
const LOOKS_MAX = 5;

/**
 * Compares all items of a cache with the rows of the database, batch by batch.
 *
 * A difference is reported when the cache has the same item, by its cas id, before and after the database was read: at
 * that moment the cached value was not the committed one. A writer that commits in between has deleted the item before.
 *
 * @param prefix Only keys that begin with it.
 * @throws PeerError
 */
export async function auditCache(
  cache: CacheView,
  origin: OriginView,
  prefix: string,
  counts: AuditCounts,
  observer: AuditObserver,
): Promise<void> {
  const audit = new Audit(cache, origin, counts, observer);
  let batch: string[] = [];
  for await (const { key } of cache.keys()) {
    counts.keys++;
    if (key === null) counts.foreign++;
    else if (key.startsWith(prefix)) batch.push(key);
    if (batch.length < BATCH_KEYS) continue;
    await audit.compare(batch);
    batch = [];
    observer.progress(counts.keys);
  }
  if (batch.length > 0) await audit.compare(batch);
  observer.progress(counts.keys);
}

/** Returns counts of nothing. */
export function noCounts(): AuditCounts {
  return { keys: 0, equal: 0, different: 0, gone: 0, unsettled: 0, foreign: 0 };
}

class Audit {
  readonly #cache: CacheView;
  readonly #origin: OriginView;
  readonly #counts: AuditCounts;
  readonly #observer: AuditObserver;

  constructor(cache: CacheView, origin: OriginView, counts: AuditCounts, observer: AuditObserver) {
    this.#cache = cache;
    this.#origin = origin;
    this.#counts = counts;
    this.#observer = observer;
  }

  async compare(keys: readonly string[]): Promise<void> {
    const items = await this.#cache.look(keys);
    const there = keys.flatMap((key, index) => {
      const cached = items[index]!;
      return cached === null ? [] : [{ key, cached }];
    });
    this.#counts.gone += keys.length - there.length;
    if (there.length === 0) return;
    const rows = await this.#origin.read(there.map(({ key }) => key));
    for (const [index, { key, cached }] of there.entries()) {
      if (isEqual(cached, rows[index]!)) this.#counts.equal++;
      else await this.#lookAgain(key, cached);
    }
  }

  /** Reads the row, then the item again, until the item stays the same. */
  async #lookAgain(key: string, first: Cached): Promise<void> {
    let cached = first;
    for (let looks = 1; looks < LOOKS_MAX; looks++) {
      const [committed] = await this.#origin.read([key]);
      if (isEqual(cached, committed!)) {
        this.#counts.equal++;
        return;
      }
      const [now] = await this.#cache.look([key]);
      if (now === null) {
        this.#counts.gone++;
        return;
      }
      if (now!.id === cached.id && now!.sha256 === cached.sha256) {
        this.#counts.different++;
        this.#observer.difference({ key, cached, committed: committed! });
        return;
      }
      cached = now!;
    }
    this.#counts.unsettled++;
  }
}

function isEqual(cached: Cached, { value }: Committed): boolean {
  return value !== null && cached.flags === value.flags && cached.bytes === value.bytes &&
    cached.sha256 === value.sha256;
}
