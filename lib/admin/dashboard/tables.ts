import { Access } from "../../../protocol/auth/access.ts";
import {
  classStatistics,
  itemStatistics,
  slabStatistics,
  threadStatistics,
} from "../../../protocol/statistics.ts";
import type { Stat, StatSource } from "../../../protocol/stats/entry.ts";
import { percentEncoded } from "../../../store/base/key_text.ts";
import { type Cache, NO_ITEM } from "../../../store/cache.ts";
import { clockSec } from "../../../store/clock.ts";
import { Activity, type ConnectionId } from "../../../store/connections.ts";
import type { Users } from "../../auth/user_file.ts";

/** Rows of a table, at most; a page says how many there are. */
const ROWS_MAX = 10_000;
/** Buckets, rows of locks, or tokens that one hold of the mutex visits. */
const VISITS_PER_HOLD = 256;

type Cell = string | number;

/** A table of the dashboard. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  /** How many rows there are; the table has the first ROWS_MAX of them. */
  readonly total: number;
}

/** A node of an origin. */
interface NodeRow {
  readonly name: string;
  readonly state: string;
  /** Time since it asked. */
  readonly ageMs: number;
  /** Rows that it has fetched. */
  readonly fetched: number;
}

/** What tables are made from. */
export interface TableSource extends StatSource {
  readonly cache: Cache;
  /** The users of `-Y`; null: no authentication. */
  readonly users: () => Users | null;
  readonly rowStats: () => readonly Stat[];
  /** The nodes of an origin. */
  readonly nodes: () => readonly NodeRow[];
}

interface TableKind {
  /** What a user must be allowed to do to see it. Tables with keys or addresses are an administrator's. */
  readonly access: Access;
  read(source: TableSource): Table;
}

/** The tables, by the last part of their path. */
export const TABLES: Readonly<Record<string, TableKind>> = {
  "hot-keys": { access: Access.ADMIN, read: hotKeys },
  classes: { access: Access.READ, read: classes },
  threads: { access: Access.READ, read: threads },
  rows: { access: Access.READ, read: rows },
  nodes: { access: Access.ADMIN, read: nodes },
  connections: { access: Access.ADMIN, read: connections },
  locks: { access: Access.ADMIN, read: locks },
  leases: { access: Access.ADMIN, read: leases },
  tokens: { access: Access.ADMIN, read: tokens },
  users: { access: Access.ADMIN, read: users },
};

function hotKeys({ cache, settings }: TableSource): Table {
  const columns = ["key", "share %", "hit %", "hits", "misses", "writes", "error"];
  if (!settings.dumpEnabled) return { columns, rows: [], total: 0 };
  const { samples, keys } = cache.inspector.hotKeys;
  const percent = (part: number, all: number): number =>
    all === 0 ? 0 : Math.round(10_000 * part / all) / 100;
  return tableOf(
    columns,
    keys.map(({ key, count, error, hits, misses, writes }) => [
      percentEncoded(key),
      percent(count, samples),
      percent(hits, hits + misses),
      hits,
      misses,
      writes,
      error,
    ]),
  );
}

const CLASS_COLUMNS = [
  ...["chunk_size", "number", "total_pages", "used_chunks", "free_chunks", "mem_requested"],
  ...["waste_percent", "get_hits", "cmd_set", "evicted", "evicted_time", "age"],
];

function classes(source: TableSource): Table {
  const { cache } = source;
  cache.enter();
  try {
    const all = [itemStatistics, slabStatistics, classStatistics].flatMap((statistics) => [
      ...statistics(source),
    ]);
    return pivoted("class", CLASS_COLUMNS, all);
  } finally {
    cache.leave();
  }
}

const THREAD_COLUMNS = [
  ...["commands", "batches", "mutex_waits", "mutex_wait_us", "mutex_held_us"],
  ...["read_retries", "read_fallbacks"],
];

function threads(source: TableSource): Table {
  return pivoted("thread", THREAD_COLUMNS, [...threadStatistics(source)]);
}

/** Returns a table with a row for each thing that the statistics are about. */
function pivoted(
  first: string,
  columns: readonly string[],
  statistics: readonly (Stat | null)[],
): Table {
  const found = new Map<string, Map<string, Cell>>();
  for (const stat of statistics) {
    if (stat === null || stat.of === "") continue;
    const row = found.get(stat.of) ?? new Map<string, Cell>();
    found.set(stat.of, row.set(stat.name, numberOr(stat.value)));
  }
  return tableOf(
    [first, ...columns],
    [...found].map(([of, row]) => [numberOr(of), ...columns.map((name) => row.get(name) ?? "")]),
  );
}

function numberOr(value: Cell): Cell {
  return value === "" || Number.isNaN(Number(value)) ? value : Number(value);
}

function rows({ rowStats }: TableSource): Table {
  return tableOf(
    ["statistic", "value", "meaning"],
    rowStats().map(({ name, value, meaning }) => [name, value, meaning?.meaning ?? ""]),
  );
}

function nodes({ nodes }: TableSource): Table {
  return tableOf(
    ["node", "state", "asked before s", "rows fetched"],
    nodes().map(({ name, state, ageMs, fetched }) => [
      percentEncoded(name),
      state,
      Math.round(ageMs / 1000),
      fetched,
    ]),
  );
}

const ACTIVITY_NAMES = new Map<Activity, string>(
  Object.entries(Activity).map(([name, activity]) => [activity, name.toLowerCase()]),
);

function connections({ cache, connections }: TableSource): Table {
  const nowSec = clockSec(cache.memory);
  const found: Cell[][] = [];
  let total = 0;
  for (const row of connections) {
    if (total++ >= ROWS_MAX) continue;
    const state = ACTIVITY_NAMES.get(row.activity) ?? "";
    const number = connections.numberOf(row.id);
    found.push([number, row.peer, row.listener, row.thread, state, nowSec - row.seenAtSec]);
  }
  const columns = ["connection", "peer", "listener", "thread", "state", "idle s"];
  return { columns, rows: found, total };
}

function locks({ cache, connections, settings }: TableSource): Table {
  const columns = ["key", "connection", "peer", "age s", "waiting"];
  const found: Cell[][] = [];
  const { locks, inspector } = cache;
  let total = 0;
  let row = 1;
  const visit = (): boolean => {
    const nowSec = clockSec(cache.memory);
    const end = Math.min(locks.rowEnd, row + VISITS_PER_HOLD);
    for (; row < end; row++) {
      const item = locks.itemOf(row);
      if (item === NO_ITEM || total++ >= ROWS_MAX) continue;
      const owner = locks.ownerOf(row) as ConnectionId;
      found.push([
        percentEncoded(inspector.key(item)),
        connections.numberOf(owner),
        connections.peerOf(owner),
        nowSec - locks.sinceSec(row),
        locks.waiters.countOf(row),
      ]);
    }
    return row < locks.rowEnd;
  };
  if (settings.dumpEnabled) inHolds(cache, visit);
  return { columns, rows: found, total };
}

function leases({ cache, settings }: TableSource): Table {
  const { inspector } = cache;
  const found: Cell[][] = [];
  let total = 0;
  let bucket = 0;
  const visit = (): boolean => {
    const end = Math.min(inspector.leaseBucketCount, bucket + VISITS_PER_HOLD);
    inspector.visitLeases(bucket, end, ({ key, remainSec }) => {
      if (total++ < ROWS_MAX) found.push([percentEncoded(key), remainSec]);
    });
    bucket = end;
    return bucket < inspector.leaseBucketCount;
  };
  if (settings.dumpEnabled) inHolds(cache, visit);
  return { columns: ["key", "remaining s"], rows: found, total };
}

function tokens({ cache, settings }: TableSource): Table {
  const { inspector } = cache;
  const found: Cell[][] = [];
  let lastId = 0;
  const visit = (): boolean => {
    const before = found.length;
    inspector.visitTokensAfter(lastId, VISITS_PER_HOLD, ({ key, id, ageSec, owner, peer }) => {
      lastId = id;
      found.push([percentEncoded(key), id, ageSec, percentEncoded(owner), percentEncoded(peer)]);
    });
    return found.length > before && found.length < ROWS_MAX;
  };
  if (settings.dumpEnabled) inHolds(cache, visit);
  const columns = ["key", "id", "age s", "owner", "peer"];
  return { columns, rows: found, total: Math.max(found.length, inspector.tokenCount) };
}

function users(source: TableSource): Table {
  const levels = new Map<Access, string>(
    Object.entries(Access).map(([name, access]) => [access, name.toLowerCase()]),
  );
  const all = [...source.users() ?? []];
  return tableOf(
    ["user", "levels", "passwords"],
    all.map(([name, lines]) => [
      percentEncoded(name),
      [...new Set(lines.map(({ access }) => levels.get(access)!))].join(", "),
      lines.length,
    ]),
  );
}

function tableOf(columns: readonly string[], rows: readonly (readonly Cell[])[]): Table {
  return { columns, rows: rows.slice(0, ROWS_MAX), total: rows.length };
}

/** Calls `visit` under the mutex until it returns false, and lets others take the mutex in between. */
function inHolds(cache: Cache, visit: () => boolean): void {
  for (let goesOn = true; goesOn;) {
    cache.enter();
    try {
      goesOn = visit();
    } finally {
      cache.leave();
    }
  }
}
