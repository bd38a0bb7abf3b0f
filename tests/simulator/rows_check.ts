import { isRead, type Operation } from "./history.ts";

/** A version of a row, as the database has noted it. */
export interface Committed {
  readonly key: string;
  /** Null: the row was deleted. */
  readonly value: string | null;
  readonly version: number;
}

/** A state of a row, from one version to the next. Its instant is between the bounds. */
interface State {
  readonly version: number;
  readonly value: string | null;
  /** Not before this place of the history. */
  least: number;
  /** Why: the operation that says so. */
  leastBy: string;
  most: number;
  mostBy: string;
}

/** Keys that other programs write, too, rows and articles: a cache has an old value until the change is followed. */
export const DIRECT_KEY = /^[da]/;

/**
 * Finds what an atomic register does not do, key by key. The database's versions are the order of the writes: each has
 * an instant between its start and its end, and each read one at which its value was the row's. A write that failed has
 * none, and one whose outcome is unknown has one at any time after its start, or none. A row that other programs write,
 * too, is not atomic, but no read is older than a write that was acknowledged, or followed, before it began.
 *
 * @returns A text for each violation.
 */
export function rowViolations(
  operations: readonly Operation[],
  committed: readonly Committed[],
): string[] {
  const byKey = Map.groupBy(operations, ({ key }) => key);
  const versionsOf = Map.groupBy(committed, ({ key }) => key);
  return [...byKey].flatMap(([key, own]) =>
    new Register(key, versionsOf.get(key) ?? []).check(own)
  );
}

class Register {
  readonly #key: string;
  readonly #states: State[];
  readonly #violations: string[] = [];
  /** By value: where in the states. */
  readonly #places = new Map<string, number>();

  constructor(key: string, committed: readonly Committed[]) {
    this.#key = key;
    const bounds = { least: -1, leastBy: "the beginning", most: Infinity, mostBy: "the end" };
    this.#states = [
      { version: 0, value: null, ...bounds, most: -1 },
      ...committed.map(({ version, value }) => ({ version, value, ...bounds })),
    ];
    for (const [place, { version, value }] of this.#states.entries()) {
      if (place > 0 && version !== this.#states[place - 1]!.version + 1) {
        this.#say(`version ${version} follows version ${this.#states[place - 1]!.version}`);
      }
      if (value === null) continue;
      if (this.#places.has(value)) {
        this.#say(`applied twice: ${value}, again as version ${version}`);
      }
      this.#places.set(value, place);
    }
  }

  #say(text: string): void {
    this.#violations.push(`${this.#key}: ${text}`);
  }

  check(operations: readonly Operation[]): readonly string[] {
    for (const each of operations) if (!isRead(each)) this.#bindWrite(each);
    this.#bindDeletes(operations);
    if (DIRECT_KEY.test(this.#key)) {
      this.#checkStale(operations);
      return this.#violations;
    }
    const absent: Operation[] = [];
    for (const each of operations) {
      if (!isRead(each) || each.outcome !== "ok") continue;
      const place = this.#placeOf(each);
      if (place === null) absent.push(each);
      else if (place >= 0) this.#bindRead(each, place);
    }
    this.#spread();
    this.#bindAbsent(absent);
    if (this.#violations.length === 0) this.#checkOrder();
    return this.#violations;
  }

  /** No read is older than a write that was acknowledged before it began. */
  #checkStale(operations: readonly Operation[]): void {
    const done: { readonly write: Operation; readonly place: number }[] = [];
    for (const write of operations) {
      const place = write.value === null ? undefined : this.#places.get(write.value);
      if (!isRead(write) && write.outcome === "ok" && place !== undefined) {
        done.push({ write, place });
      }
    }
    for (const read of operations) {
      if (!isRead(read) || read.outcome !== "ok") continue;
      const place = this.#placeOf(read) ??
        this.#states.findLastIndex(({ value }) => value === null);
      const newer = done.find(({ write, place: at }) => write.end! < read.start && at > place);
      if (place >= 0 && newer !== undefined) {
        this.#say(`stale: ${textOf(read)}, after ${textOf(newer.write)}`);
      }
    }
  }

  /** @returns Null: several may be meant. -1: there is none. */
  #placeOf(read: Operation): number | null {
    const { value, version } = read;
    if (value === null && version === null) return null;
    const place = version === null
      ? this.#places.get(value!) ?? -1
      : this.#states.findIndex((state) => state.version === version);
    const state = this.#states[place];
    if (state !== undefined && state.value === value) return place;
    this.#say(`never committed: ${textOf(read)}`);
    return -1;
  }

  #bindWrite(write: Operation): void {
    const { value, start, end, outcome } = write;
    if (value === null) return;
    const place = this.#places.get(value);
    if (place === undefined) {
      if (outcome === "ok") this.#say(`lost: ${textOf(write)}`);
      return;
    }
    if (outcome === "failed") return this.#say(`failed, but committed: ${textOf(write)}`);
    if (write.version !== null && write.version !== this.#states[place]!.version) {
      this.#say(`${textOf(write)}, but it is version ${this.#states[place]!.version}`);
    }
    this.#checkCondition(write, this.#states[place - 1]!);
    this.#atLeast(place, start, write);
    if (outcome === "ok") this.#atMost(place, end!, write);
  }

  /** @param before The state that the write has replaced. */
  #checkCondition(write: Operation, before: State): void {
    const { operation, compared } = write;
    const isMet = operation === "add"
      ? before.value === null
      : compared === undefined || before.value !== null && before.version === compared;
    if (isMet) return;
    const row = `version ${before.version} (${before.value ?? "absent"})`;
    this.#say(`${textOf(write)}, although ${row} was there`);
  }

  /**
   * Nothing tells deletions apart. Before the nth one, n of them have been asked for; when n of them have been
   * acknowledged, n are there.
   */
  #bindDeletes(operations: readonly Operation[]): void {
    const asked = operations.filter(({ operation, outcome }) =>
      operation === "delete" && outcome !== "failed"
    ).sort((a, b) => a.start - b.start);
    const done = asked.filter(({ outcome }) => outcome === "ok").sort((a, b) => a.end! - b.end!);
    const made = [...this.#states.keys()].filter((place) =>
      place > 0 && this.#states[place]!.value === null
    );
    const [first] = done;
    if (made.length < done.length) this.#say(`lost: one of ${done.length}, like ${textOf(first!)}`);
    if (made.length > asked.length) {
      this.#say(`${made.length} deletions were committed, ${asked.length} were asked for`);
    }
    for (const [count, place] of made.entries()) {
      if (count < asked.length) this.#atLeast(place, asked[count]!.start, asked[count]!);
      if (count < done.length) this.#atMost(place, done[count]!.end!, done[count]!);
    }
  }

  #atLeast(place: number, least: number, by: Operation): void {
    const state = this.#states[place];
    if (state === undefined || state.least >= least) return;
    state.least = least;
    state.leastBy = textOf(by);
  }

  #atMost(place: number, most: number, by: Operation): void {
    const state = this.#states[place];
    if (state === undefined || state.most <= most) return;
    state.most = most;
    state.mostBy = textOf(by);
  }

  /** The state began before the read ended, and the next one after the read began. */
  #bindRead(read: Operation, place: number): void {
    this.#atMost(place, read.end!, read);
    this.#atLeast(place + 1, read.start, read);
  }

  /** States begin in their order. */
  #spread(): void {
    const states = this.#states;
    for (let place = 1; place < states.length; place++) {
      const before = states[place - 1]!;
      const state = states[place]!;
      if (state.least < before.least) {
        state.least = before.least;
        state.leastBy = before.leastBy;
      }
    }
    for (let place = states.length - 2; place >= 0; place--) {
      const next = states[place + 1]!;
      const state = states[place]!;
      if (state.most > next.most) {
        state.most = next.most;
        state.mostBy = next.mostBy;
      }
    }
  }

  /** Finds states for reads that found nothing. Where only one is possible, that binds others, too. */
  #bindAbsent(reads: readonly Operation[]): void {
    const states = this.#states;
    for (const read of reads) {
      const possible: number[] = [];
      for (const [place, { value, least }] of states.entries()) {
        if (value !== null || least > read.end!) continue;
        if ((states[place + 1]?.most ?? Infinity) >= read.start) possible.push(place);
      }
      if (possible.length === 0) this.#say(`nothing was absent: ${textOf(read)}`);
      if (possible.length !== 1) continue;
      this.#bindRead(read, possible[0]!);
      this.#spread();
    }
  }

  #checkOrder(): void {
    for (const { version, value, least, leastBy, most, mostBy } of this.#states) {
      if (version === 0 || least <= most) continue;
      return this.#say(
        `not atomic: version ${version} (${
          value ?? "absent"
        }) begins after ${leastBy}, and before ${mostBy}`,
      );
    }
  }
}

/** Returns an operation as violations name it. */
function textOf({ client, operation, value, version, start, end, outcome }: Operation): string {
  const at = version === null ? "" : ` version ${version}`;
  return `[${start}..${end ?? "?"}] ${client} ${operation} ${value ?? "nothing"}${at} ${outcome}`;
}
