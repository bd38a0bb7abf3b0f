/** What applications did with the client library, and saw. Times are places in the order of everything. */
export interface ItemHistory {
  /** Versions in the application's database. */
  readonly commits: { readonly key: string; readonly version: number; readonly at: number }[];
  /** Updates of which no client gets the value before any more. */
  readonly finished: { readonly key: string; readonly version: number; readonly at: number }[];
  readonly loads: {
    readonly key: string;
    readonly version: number;
    readonly start: number;
    readonly end: number;
    readonly by: string;
  }[];
  readonly locks: {
    readonly key: string;
    readonly fence: number;
    /** When it was asked for, and when it was got. */
    readonly start: number;
    readonly at: number;
    readonly by: string;
  }[];
  /** Stores that a lock's connection has confirmed. */
  readonly guarded: { readonly key: string; readonly fence: number; readonly start: number }[];
}

/** Keys of which every writer has an update token: no read is older than what was committed before it. */
export const TOKEN_KEY = /^t/;

/**
 * Finds what the client library does not promise: values older than an update that had returned, or, where writers have
 * update tokens, than one that was committed; values of nobody; fencing numbers that do not grow; stores of a lock that
 * another client has.
 *
 * @returns A text for each.
 */
export function itemViolations(history: ItemHistory): string[] {
  const violations: string[] = [];
  const committed = Map.groupBy(history.commits, ({ key }) => key);
  const finished = Map.groupBy(history.finished, ({ key }) => key);
  for (const { key, version, start, end, by } of history.loads) {
    const text = `[${start}..${end}] ${by} got version ${version} of ${key}`;
    const own = committed.get(key)?.find((each) => each.version === version);
    if (version !== 0 && (own === undefined || own.at > end)) violations.push(`of nobody: ${text}`);
    const strict = TOKEN_KEY.test(key) ? committed.get(key) : finished.get(key);
    const newest = (strict ?? []).findLast((each) => each.at < start && each.version > version);
    if (newest === undefined) continue;
    violations.push(`stale: ${text}, after version ${newest.version} at [${newest.at}]`);
  }
  const locks = Map.groupBy(history.locks, ({ key }) => key);
  for (const [key, own] of locks) {
    for (const { fence, start, by } of own) {
      const before = own.find((each) => each.at < start && each.fence >= fence);
      if (before === undefined) continue;
      violations.push(
        `the fence of ${key} does not grow: ${by} got ${fence} after ${before.by} had ${before.fence}`,
      );
    }
  }
  for (const { key, fence, start } of history.guarded) {
    const later = locks.get(key)?.find((each) => each.fence > fence && each.at < start);
    if (later === undefined) continue;
    violations.push(
      `[${start}] ${key} was stored under fence ${fence}, when ${later.by} had ${later.fence} at [${later.at}]`,
    );
  }
  return violations;
}
