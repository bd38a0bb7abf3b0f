import {
  type ClientFlow,
  type Entry,
  type Fill,
  type Held,
  type KeyState,
  type Loaded,
  type LookResult,
  type Outcome,
  step,
} from "./steps.ts";

/** How a flow loads. Times in seconds, unless the name says ms. */
export interface LoadSettings {
  /** Longest wait for the load of another client, in ms. */
  readonly waitMs: number;
  /** A row that is absent is kept so long; 0: not at all. */
  readonly absentSec: number;
  /** A value that expires within this time is loaded anew by one client. */
  readonly refreshSec: number;
  /** How long a value may be served after its time to live, while loading fails or is slow. */
  readonly graceSec: number;
  /** After this time the client that loads serves a value in its grace, too, and the load goes on. */
  readonly softMs: number;
  readonly tags: readonly string[];
}

/** A key that the flow loads, and the item that the value may take the place of. */
interface Task<Value> extends Held {
  /** The item is a lease. Otherwise it is a value. */
  readonly isLease: boolean;
  /** Served by others meanwhile, and if loading fails. */
  readonly fallback?: Entry<Value>;
}

/** The findings of a look, sorted by the next step. */
interface Round<Value> {
  readonly tasks: Task<Value>[];
  readonly expired: Task<Value>[];
  readonly early: Task<Value>[];
  /** Loaded for another version of a tag. */
  readonly outdated: Held[];
  readonly waiting: string[];
  /** To be loaded without a fill. */
  readonly alone: string[];
  waitMs: number;
}

const FIRST_PAUSE_MS = 10;
const PAUSE_MS_MAX = 200;
/** Looks that find only values of other versions of the tags: something invalidates them all the time. */
const OUTDATED_ROUNDS_MAX = 8;

/**
 * Reads keys from the cache, and loads those that are missing, keeping rules R1 to R4 and R10 of docs/leases.md: the
 * lease and the tags' versions come before the load; only the client that has made the lease fills, by the lease's id;
 * others wait, then load and do not fill. Nobody waits for a load of another client who has a value in its grace.
 */
export function* loadFlow<Value>(
  keys: readonly string[],
  settings: LoadSettings,
): ClientFlow<Value, void> {
  const early: Task<Value>[] = [];
  let versions: LookResult<Value>["versions"];
  let pauseMs = FIRST_PAUSE_MS;
  let leftMs = settings.waitMs;
  let outdatedRounds = 0;
  for (let open = keys; open.length > 0;) {
    const sight = yield* step({ kind: "look", keys: open });
    versions = sight.versions;
    const round = yield* judge(open, sight, settings);
    early.push(...round.early);
    if (round.expired.length > 0) {
      const claimed = yield* step({ kind: "claim", keys: round.expired.map(({ key }) => key) });
      for (const task of round.expired) {
        if (claimed.has(task.key)) round.tasks.push(task);
        else yield* answerStale(task.key, task.fallback!);
      }
    }
    if (round.outdated.length > 0) yield* step({ kind: "drop", items: round.outdated });
    if (round.tasks.length > 0) yield* loadAndFill(round.tasks, versions!, settings);
    leftMs = Math.min(leftMs, round.waitMs);
    const isOver = round.waiting.length > 0 && leftMs <= 0;
    const again = round.outdated.map(({ key }) => key);
    if (again.length > 0 && ++outdatedRounds > OUTDATED_ROUNDS_MAX) {
      round.alone.push(...again.splice(0));
    }
    if (isOver) round.alone.push(...round.waiting.splice(0));
    if (round.alone.length > 0) yield* loadAlone(round.alone);
    if (round.waiting.length > 0) {
      const ms = Math.min(pauseMs, leftMs);
      yield* step({ kind: "sleep", ms });
      leftMs -= ms;
      pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
    }
    open = [...round.waiting, ...again];
  }
  if (early.length > 0 && versions !== undefined) yield* refresh(early, versions, settings);
}

/** Sorts what a look has found, and answers what the cache can answer. */
function* judge<Value>(
  keys: readonly string[],
  { seen, versions }: LookResult<Value>,
  settings: LoadSettings,
): ClientFlow<Value, Round<Value>> {
  const round: Round<Value> = {
    tasks: [],
    expired: [],
    early: [],
    outdated: [],
    waiting: [],
    alone: [],
    waitMs: settings.waitMs,
  };
  for (const key of keys) {
    const found = seen.get(key)!;
    if (found.state === "won" && versions !== undefined) {
      round.tasks.push({ key, cas: found.cas, isLease: true });
    } else if (found.state === "held") {
      round.waiting.push(key);
      round.waitMs = Math.min(round.waitMs, found.leftSec * 1000);
    } else if (found.state === "value" && versions !== undefined) {
      if (isOfVersions(found.entry, settings.tags, versions)) {
        yield* judgeValue(key, found, settings, round);
      } else round.outdated.push({ key, cas: found.cas });
    } else {
      if (found.state === "won") yield* step({ kind: "drop", items: [{ key, cas: found.cas }] });
      round.alone.push(key);
    }
  }
  return round;
}

function* judgeValue<Value>(
  key: string,
  { cas, leftSec, entry }: KeyState<Value> & { readonly state: "value" },
  { refreshSec }: LoadSettings,
  { expired, early }: Round<Value>,
): ClientFlow<Value, void> {
  const freshSec = leftSec - entry.graceSec;
  const task = { key, cas, isLease: false, fallback: entry };
  if (freshSec <= 0) {
    expired.push(task);
    return;
  }
  if (freshSec <= refreshSec) early.push(task);
  const outcome = { value: entry.value, isStale: false, from: "cache" } as const;
  yield* step({ kind: "answer", key, outcome });
}

/** Whether a value was loaded for these tags, and none has been invalidated since. */
function isOfVersions<Value>(
  entry: Entry<Value>,
  tags: readonly string[],
  versions: Readonly<Record<string, string>>,
): boolean {
  return Object.keys(entry.versions).length === tags.length &&
    tags.every((tag) => entry.versions[tag] === versions[tag]);
}

function* loadAndFill<Value>(
  tasks: readonly Task<Value>[],
  versions: Readonly<Record<string, string>>,
  settings: LoadSettings,
): ClientFlow<Value, void> {
  const keys = tasks.map(({ key }) => key);
  const answered = new Set<string>();
  const replaced = tasks.filter(({ fallback }) => fallback !== undefined);
  for (const { key, fallback } of replaced) {
    yield* step({ kind: "offer", key, outcome: staleOutcome(fallback!) });
  }
  let loaded: Loaded<Value> | "late";
  try {
    const limit = replaced.length > 0 && settings.softMs > 0 ? { softMs: settings.softMs } : {};
    loaded = yield* step({ kind: "load", keys, ...limit });
    if (loaded === "late") {
      for (const { key, fallback } of replaced) {
        answered.add(key);
        yield* answerStale(key, fallback!);
      }
      loaded = yield* step({ kind: "loadRest" });
    }
  } catch (error) {
    // Others need not wait for the ends of leases and claims.
    const items = tasks.filter(({ isLease }) => isLease);
    if (items.length > 0) yield* step({ kind: "drop", items });
    yield* unclaim(tasks.filter(({ isLease }) => !isLease));
    for (const { key, fallback } of tasks) {
      if (answered.has(key)) continue;
      if (fallback !== undefined) yield* answerStale(key, fallback);
      else yield* step({ kind: "answer", key, outcome: { error } });
    }
    return;
  }
  yield* fill(tasks, loaded, versions, settings);
  for (const key of keys) if (!answered.has(key)) yield* answerLoaded(key, loaded);
}

/** Fills under the items' ids. A refused fill is not repeated: the value may be old. */
function* fill<Value>(
  tasks: readonly Task<Value>[],
  { rows, keep, ttlSec }: Loaded<Value>,
  versions: Readonly<Record<string, string>>,
  { absentSec, graceSec }: LoadSettings,
): ClientFlow<Value, void> {
  const fills: Fill<Value>[] = [];
  const dropped: Held[] = [];
  for (const { key, cas } of tasks) {
    const value = rows.get(key);
    const sec = value === undefined ? absentSec : ttlSec;
    if (!keep || (value === undefined && absentSec === 0)) dropped.push({ key, cas });
    else fills.push({ key, cas, ttlSec: sec, entry: { value, graceSec, versions } });
  }
  if (dropped.length > 0) yield* step({ kind: "drop", items: dropped });
  if (fills.length > 0) yield* step({ kind: "fill", fills });
}

/** Loads without a lease, so the rows are not kept. */
function* loadAlone<Value>(keys: readonly string[]): ClientFlow<Value, void> {
  try {
    const loaded = yield* step({ kind: "load", keys });
    for (const key of keys) yield* answerLoaded(key, loaded as Loaded<Value>);
  } catch (error) {
    for (const key of keys) yield* step({ kind: "answer", key, outcome: { error } });
  }
}

/** Loads values anew that expire soon. Their callers have been answered, so a failure concerns nobody. */
function* refresh<Value>(
  tasks: readonly Task<Value>[],
  versions: Readonly<Record<string, string>>,
  settings: LoadSettings,
): ClientFlow<Value, void> {
  const claimed = yield* step({ kind: "claim", keys: tasks.map(({ key }) => key) });
  const own = tasks.filter(({ key }) => claimed.has(key));
  if (own.length === 0) return;
  try {
    const loaded = yield* step({ kind: "load", keys: own.map(({ key }) => key) });
    yield* fill(own, loaded as Loaded<Value>, versions, settings);
  } catch {
    // The values stay until they expire.
    yield* unclaim(own);
  }
}

function* unclaim<Value>(tasks: readonly Task<Value>[]): ClientFlow<Value, void> {
  if (tasks.length > 0) yield* step({ kind: "unclaim", keys: tasks.map(({ key }) => key) });
}

function staleOutcome<Value>({ value }: Entry<Value>): Outcome<Value> {
  return { value, isStale: true, from: "cache" };
}

function* answerStale<Value>(key: string, fallback: Entry<Value>): ClientFlow<Value, void> {
  yield* step({ kind: "answer", key, outcome: staleOutcome(fallback) });
}

function* answerLoaded<Value>(key: string, { rows }: Loaded<Value>): ClientFlow<Value, void> {
  const outcome = { value: rows.get(key), isStale: false, from: "load" } as const;
  yield* step({ kind: "answer", key, outcome });
}
