/** A write that a client has seen acknowledged. Times are places in the order of everything that the test saw. */
export interface Acknowledged {
  readonly key: string;
  readonly value: string;
  readonly version: number;
  readonly at: number;
}

/** A read, by a client or out of a cache. */
export interface Observed {
  readonly key: string;
  /** Null: no such row. */
  readonly value: string | null;
  readonly began: number;
  readonly ended: number;
  readonly by: string;
}

/** A row's version, as the database itself has noted it. */
export interface Committed {
  readonly key: string;
  readonly value: string;
  readonly version: number;
}

/** The observations of a run. Every value is written once. */
export interface History {
  readonly acknowledged: Acknowledged[];
  readonly observed: Observed[];
  readonly committed: Committed[];
  /** Values that a client was told will never be written. */
  readonly failed: { readonly key: string; readonly value: string }[];
}

/**
 * Finds what must not be: reads of a value older than the last write that was acknowledged before the read began, reads
 * of values that were never committed, acknowledged writes that the database does not have, failed ones that it has,
 * writes applied twice.
 *
 * @returns A text for each, with the shortest history around it.
 */
export function violationsOf({ acknowledged, observed, committed, failed }: History): string[] {
  const violations: string[] = [];
  const versions = new Map<string, number>();
  for (const { key, value, version } of committed) {
    const name = `${key} ${value}`;
    const first = versions.get(name);
    if (first !== undefined) {
      violations.push(`applied twice: ${name}, versions ${first} and ${version}`);
    }
    versions.set(name, version);
  }
  for (const { key, value } of failed) {
    const version = versions.get(`${key} ${value}`);
    if (version !== undefined) {
      violations.push(`failed, but committed: ${key} ${value}, version ${version}`);
    }
  }
  const committedOf = Map.groupBy(committed, ({ key }) => key);
  const told = new Set<string>();
  for (const write of acknowledged) {
    const version = versions.get(`${write.key} ${write.value}`);
    const isFirst = !told.has(`${write.key} ${write.version}`);
    told.add(`${write.key} ${write.version}`);
    if (version === write.version) continue;
    // A later write of the same transaction has overwritten it: the database has counted it.
    const of = committedOf.get(write.key) ?? [];
    const isOverwritten = of.some((each) => each.version > write.version) &&
      of.every((each) => each.version !== write.version);
    if (version === undefined && isOverwritten && isFirst) continue;
    const found = version === undefined ? "nothing of it" : `version ${version}`;
    violations.push(`lost: ${acknowledgedText(write)}; the database has ${found}`);
  }
  const byKey = Map.groupBy(acknowledged, ({ key }) => key);
  for (const read of observed) {
    const version = read.value === null ? 0 : versions.get(`${read.key} ${read.value}`);
    if (version === undefined) {
      const elsewhere = committed.find(({ value }) => value === read.value);
      const found = elsewhere === undefined ? "" : `; it is a value of ${elsewhere.key}`;
      violations.push(`never committed: ${observedText(read)}${found}`);
      continue;
    }
    const newest = newestBefore(byKey.get(read.key) ?? [], read.began);
    if (newest === null || newest.version <= version) continue;
    violations.push(
      `stale: ${acknowledgedText(newest)}; then ${observedText(read)}, version ${version}`,
    );
  }
  return violations;
}

function newestBefore(writes: readonly Acknowledged[], began: number): Acknowledged | null {
  let newest: Acknowledged | null = null;
  for (const write of writes) {
    if (write.at < began && (newest === null || write.version > newest.version)) newest = write;
  }
  return newest;
}

function acknowledgedText({ at, key, value, version }: Acknowledged): string {
  return `[${at}] ${key} = ${value} acknowledged, version ${version}`;
}

function observedText({ began, ended, by, key, value }: Observed): string {
  return `[${began}..${ended}] ${by} read ${key} = ${value}`;
}
