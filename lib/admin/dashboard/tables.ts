import { Access } from "../../../protocol/auth/access.ts";
import {
  classStatistics,
  itemStatistics,
  slabStatistics,
  threadStatistics,
} from "../../../protocol/statistics.ts";
import type { Stat, StatSource } from "../../../protocol/stats/entry.ts";
import { printable } from "../../../store/base/key_text.ts";
import { type Cache, NO_ITEM, type TokenView } from "../../../store/cache.ts";
import { clockSec } from "../../../store/clock.ts";
import { Activity, type ConnectionId } from "../../../store/connections.ts";
import type { Users } from "../../auth/user_file.ts";

/** Rows of a reply, at most. */
const ROWS_MAX = 10_000;
/** Buckets, rows of locks, or tokens that one hold of the mutex visits. */
const VISITS_PER_HOLD = 256;

type Cell = string | number;

/** A table of the dashboard. */
export interface Table {
  readonly columns: readonly string[];
  /** The first ROWS_MAX of those that were found. */
  readonly rows: readonly (readonly Cell[])[];
  readonly found: number;
  /** How many rows there are. */
  readonly total: number;
  /** Whether there are more than a reply has: then a search is the server's. */
  readonly isCut: boolean;
}

/** Collects the rows of a table that have a text. */
class Rows {
  readonly rows: Cell[][] = [];
  found = 0;
  total = 0;
  readonly #search: string;

  /** @param search "": all rows. */
  constructor(search: string) {
    this.#search = search.toLowerCase();
  }

  get isFull(): boolean {
    return this.rows.length >= ROWS_MAX;
  }

  add(...row: Cell[]): void {
    this.total++;
    const has = (cell: Cell): boolean => String(cell).toLowerCase().includes(this.#search);
    if (this.#search !== "" && !row.some(has)) return;
    this.found++;
    if (!this.isFull) this.rows.push(row);
  }

  table(columns: readonly string[]): Table {
    const { rows, found, total } = this;
    return { columns, rows, found, total, isCut: total > ROWS_MAX };
  }
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

/** An update token of a row. */
interface RowToken {
  readonly id: number;
  readonly key: string;
  /** "": none. */
  readonly owner: string;
  readonly state: string;
  readonly ageMs: number;
}

/** The sources of tables. */
export interface TableSource extends StatSource {
  readonly cache: Cache;
  /** The users of `-Y`; null: no authentication. */
  readonly users: () => Users | null;
  readonly rowStats: () => readonly Stat[];
  /** The nodes of an origin. */
  readonly nodes: () => readonly NodeRow[];
  /** Update tokens of an origin. */
  readonly rowTokens: () => readonly RowToken[];
}

interface TableKind {
  /** The access that a user needs to see it. Tables with keys or addresses are an administrator's. */
  readonly access: Access;
  /** @param search Rows without this text are left out. */
  read(source: TableSource, search: string): Table;
}

/** The tables, by the last part of their path. */
export const TABLES: Readonly<Record<string, TableKind>> = {
  "hot-keys": { access: Access.ADMIN, read: hotKeys },
  classes: { access: Access.READ, read: classes },
  threads: { access: Access.READ, read: threads },
  rows: { access: Access.READ, read: rows },
  "row-tokens": { access: Access.ADMIN, read: rowTokens },
  nodes: { access: Access.ADMIN, read: nodes },
  connections: { access: Access.ADMIN, read: connections },
  locks: { access: Access.ADMIN, read: locks },
  leases: { access: Access.ADMIN, read: leases },
  tokens: { access: Access.ADMIN, read: tokens },
  users: { access: Access.ADMIN, read: users },
};

function hotKeys({ cache, settings }: TableSource, search: string): Table {
  const found = new Rows(search);
  const columns = ["key", "share %", "hit %", "hits", "misses", "writes", "error"];
  if (settings.disableDumping) return found.table(columns);
  const { samples, keys } = cache.inspector.hotKeys;
  const percent = (part: number, all: number): number =>
    all === 0 ? 0 : Math.round(10_000 * part / all) / 100;
  for (const { key, count, error, hits, misses, writes } of keys) {
    const [share, hitShare] = [percent(count, samples), percent(hits, hits + misses)];
    found.add(printable(key), share, hitShare, hits, misses, writes, error);
  }
  return found.table(columns);
}

const CLASS_COLUMNS = [
  ...["chunk_size", "number", "total_pages", "used_chunks", "free_chunks", "mem_requested"],
  ...["waste_percent", "get_hits", "cmd_set", "evicted", "evicted_time", "age"],
];

function classes(source: TableSource, search: string): Table {
  const { cache } = source;
  cache.enter();
  try {
    const all = [itemStatistics, slabStatistics, classStatistics].flatMap((statistics) => [
      ...statistics(source),
    ]);
    return pivoted("class", CLASS_COLUMNS, all, search);
  } finally {
    cache.leave();
  }
}

const THREAD_COLUMNS = [
  ...["commands", "batches", "mutex_waits", "mutex_wait_us", "mutex_held_us"],
  ...["read_retries", "read_fallbacks"],
];

function threads(source: TableSource, search: string): Table {
  return pivoted("thread", THREAD_COLUMNS, [...threadStatistics(source)], search);
}

/** Returns a table with a row for each thing that the statistics are about. */
function pivoted(
  first: string,
  columns: readonly string[],
  statistics: readonly (Stat | null)[],
  search: string,
): Table {
  const found = new Map<string, Map<string, Cell>>();
  for (const stat of statistics) {
    if (stat === null || stat.of === "") continue;
    const row = found.get(stat.of) ?? new Map<string, Cell>();
    found.set(stat.of, row.set(stat.name, numberOr(stat.value)));
  }
  const rows = new Rows(search);
  for (const [of, row] of found) {
    rows.add(numberOr(of), ...columns.map((name) => row.get(name) ?? ""));
  }
  return rows.table([first, ...columns]);
}

function numberOr(value: Cell): Cell {
  return value === "" || Number.isNaN(Number(value)) ? value : Number(value);
}

function rows({ rowStats }: TableSource, search: string): Table {
  const found = new Rows(search);
  for (const { name, value, meaning } of rowStats()) {
    found.add(name, value, meaning?.meaning ?? "");
  }
  return found.table(["statistic", "value", "meaning"]);
}

function nodes({ nodes }: TableSource, search: string): Table {
  const found = new Rows(search);
  for (const { name, state, ageMs, fetched } of nodes()) {
    found.add(printable(name), state, Math.round(ageMs / 1000), fetched);
  }
  return found.table(["node", "state", "asked before s", "rows fetched"]);
}

function rowTokens({ rowTokens, settings }: TableSource, search: string): Table {
  const found = new Rows(search);
  for (const { key, id, state, ageMs, owner } of settings.disableDumping ? [] : rowTokens()) {
    found.add(printable(key), id, state, Math.round(ageMs / 1000), printable(owner));
  }
  return found.table(["key", "id", "state", "age s", "owner"]);
}

const ACTIVITY_NAMES = new Map<Activity, string>(
  Object.entries(Activity).map(([name, activity]) => [activity, name.toLowerCase()]),
);

function connections({ cache, connections }: TableSource, search: string): Table {
  const nowSec = clockSec(cache.memory);
  const found = new Rows(search);
  for (const row of connections) {
    const state = ACTIVITY_NAMES.get(row.activity) ?? "";
    const number = connections.numberOf(row.id);
    found.add(number, row.peer, row.listener, row.thread, state, nowSec - row.seenAtSec);
  }
  return found.table(["connection", "peer", "listener", "thread", "state", "idle s"]);
}

function locks({ cache, connections, settings }: TableSource, search: string): Table {
  const found = new Rows(search);
  const { locks, inspector } = cache;
  let row = 1;
  const visit = (): boolean => {
    const nowSec = clockSec(cache.memory);
    const end = Math.min(locks.rowEnd, row + VISITS_PER_HOLD);
    for (; row < end; row++) {
      const item = locks.itemOf(row);
      if (item === NO_ITEM) continue;
      const owner = locks.ownerOf(row) as ConnectionId;
      found.add(
        printable(inspector.key(item)),
        connections.numberOf(owner),
        connections.peerOf(owner),
        nowSec - locks.sinceSec(row),
        locks.waiters.countOf(row),
      );
    }
    return row < locks.rowEnd;
  };
  if (!settings.disableDumping) inHolds(cache, visit);
  return found.table(["key", "connection", "peer", "age s", "waiting"]);
}

function leases({ cache, settings }: TableSource, search: string): Table {
  const { inspector } = cache;
  const found = new Rows(search);
  let bucket = 0;
  const visit = (): boolean => {
    const end = Math.min(inspector.leaseBucketCount, bucket + VISITS_PER_HOLD);
    inspector.visitLeases(bucket, end, ({ key, remainSec }) => {
      found.add(printable(key), remainSec);
    });
    bucket = end;
    return bucket < inspector.leaseBucketCount;
  };
  if (!settings.disableDumping) inHolds(cache, visit);
  return found.table(["key", "remaining s"]);
}

const TOKEN_COLUMNS = ["key", "id", "age s", "owner", "peer"];

function tokenCells({ key, id, ageSec, owner, peer }: TokenView): Cell[] {
  return [printable(key), id, ageSec, printable(owner), printable(peer)];
}

/** Returns the oldest update tokens first. */
function tokens({ cache, settings }: TableSource, search: string): Table {
  const { inspector } = cache;
  const found = new Rows(search);
  if (settings.disableDumping) return found.table(TOKEN_COLUMNS);
  if (search !== "") return foundTokens(cache, found);
  let lastId = 0;
  inHolds(cache, () => {
    const before = found.total;
    inspector.visitTokensAfter(lastId, VISITS_PER_HOLD, (token) => {
      lastId = token.id;
      found.add(...tokenCells(token));
    });
    return found.total > before && !found.isFull;
  });
  found.total = found.found = Math.max(found.total, inspector.tokenCount);
  return found.table(TOKEN_COLUMNS);
}

/** Walks the table of tokens, which has no order: a walk by age begins at the oldest one after each hold. */
function foundTokens(cache: Cache, found: Rows): Table {
  const { inspector } = cache;
  let bucket = 0;
  inHolds(cache, () => {
    const end = Math.min(inspector.tokenBucketCount, bucket + VISITS_PER_HOLD);
    inspector.visitTokens(bucket, end, (token) => found.add(...tokenCells(token)));
    bucket = end;
    return bucket < inspector.tokenBucketCount;
  });
  found.rows.sort((a, b) => Number(a[1]) - Number(b[1]));
  return found.table(TOKEN_COLUMNS);
}

function users(source: TableSource, search: string): Table {
  const levels = new Map<Access, string>(
    Object.entries(Access).map(([name, access]) => [access, name.toLowerCase()]),
  );
  const found = new Rows(search);
  for (const [name, lines] of source.users() ?? []) {
    const own = [...new Set(lines.map(({ access }) => levels.get(access)!))].join(", ");
    found.add(printable(name), own, lines.length);
  }
  return found.table(["user", "levels", "passwords"]);
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
