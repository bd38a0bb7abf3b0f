import type { OptionValues, RowOf, TOP_OPTIONS } from "../../cli/option_table.ts";
import { groupsOf, numberOf, type Table } from "../stats_client.ts";

export type ViewName = OptionValues<RowOf<typeof TOP_OPTIONS>>["view"];

/** How a value is written and sorted. */
export type Kind = "text" | "count" | "rate" | "bytes" | "byteRate" | "percent" | "seconds";
export type Column = readonly [title: string, kind: Kind];
/** NaN: the server does not tell. */
export type Cell = number | string;

/** Two looks at one server. */
export interface Sample {
  /** `host:port` */
  readonly name: string;
  /** Why it cannot be reached; "": it can. */
  readonly reason: string;
  /** Tables by name; null: the server does not have it. */
  readonly now: Tables;
  /** The look before, or null. */
  readonly before: Tables | null;
  /** Seconds between the two. */
  readonly seconds: number;
}

export type Tables = ReadonlyMap<string, Table | null>;

/** A table of `leased top`. */
export interface View {
  /** Tables of statistics that it needs; "": that of `stats` alone. */
  readonly tables: readonly string[];
  /** Title of the column that sorts it at first. */
  readonly sort: string;
  /** In the order in which narrow terminals keep them. */
  readonly columns: readonly Column[];
  /** Rows of one server, with a cell for each column. */
  rows(sample: Sample): Cell[][];
}

const SERVERS: View = {
  tables: ["", "threads", "latency", "rows"],
  sort: "server",
  // deno-fmt-ignore
  columns: [
    ["server", "text"], ["get/s", "rate"], ["set/s", "rate"], ["hit%", "percent"], ["p99 us", "count"], ["mem", "bytes"],
    ["mem%", "percent"], ["items", "count"], ["conns", "count"], ["evict/s", "rate"],
    ["in/s", "byteRate"], ["out/s", "byteRate"], ["wait%", "percent"], ["saved/s", "rate"],
    ["stale/s", "rate"], ["rows/s", "rate"], ["wrong", "count"], ["leases", "count"], ["locks", "count"],
    ["tokens", "count"], ["oldest", "seconds"], ["up", "seconds"], ["version", "text"],
  ],
  rows(sample): Cell[][] {
    const { name, reason, now } = sample;
    const stats = now.get("") ?? null;
    if (reason !== "") return [[name]];
    const value = (stat: string): number => numberOf(stats, stat);
    const rate = (stat: string): number => rateOf(sample, stat);
    const hits = rate("get_hits");
    const [waitUs, heldUs] = [
      threadRate(sample, "mutex_wait_us"),
      threadRate(sample, "mutex_held_us"),
    ];
    return [[
      name,
      rate("cmd_get"),
      rate("cmd_set"),
      percent(hits, hits + rate("get_misses")),
      numberOf(now.get("latency") ?? null, "all:p99_us"),
      value("bytes"),
      percent(value("bytes"), value("limit_maxbytes")),
      value("curr_items"),
      value("curr_connections"),
      rate("evictions"),
      rate("bytes_read"),
      rate("bytes_written"),
      percent(waitUs, heldUs),
      rate("lease_wait_hint"),
      rate("lease_badval") + rate("strict_refused") + rate("token_refused"),
      rateOf(sample, "puts_committed", "rows"),
      numberOf(now.get("rows") ?? null, "verified_wrong_day"),
      value("lease_curr"),
      value("lock_curr"),
      value("token_curr"),
      value("token_oldest_age"),
      value("uptime"),
      stats?.get("version") ?? "",
    ]];
  },
};

const COMMANDS: View = {
  tables: ["", "ops"],
  sort: "per s",
  columns: [["command", "text"], ["per s", "rate"], ["total", "count"]],
  rows(sample): Cell[][] {
    const hasOps = (sample.now.get("ops") ?? null) !== null;
    const table = hasOps ? "ops" : "";
    return [...sample.now.get(table) ?? []]
      .filter(([stat, value]) => (hasOps || stat.startsWith("cmd_")) && value !== "0")
      .map(([stat]) => [
        stat.replace(/^cmd_/, ""),
        rateOf(sample, stat, table),
        numberOf(sample.now.get(table)!, stat),
      ]);
  },
};

const CLASSES: View = {
  tables: ["items", "slabs"],
  sort: "evict/s",
  // deno-fmt-ignore
  columns: [
    ["class", "count"], ["chunk", "bytes"], ["pages", "count"], ["items", "count"], ["used%", "percent"],
    ["evict/s", "rate"], ["evicted", "count"], ["evict age", "seconds"], ["age", "seconds"], ["no memory", "count"],
  ],
  rows(sample): Cell[][] {
    const items = sample.now.get("items") ?? null;
    const slabs = sample.now.get("slabs") ?? null;
    const classes = groupsOf(slabs);
    return [...groupsOf(items, "items:")].map(([of, group]) => {
      const slab = classes.get(of) ?? null;
      return [
        Number(of),
        numberOf(slab, "chunk_size"),
        numberOf(slab, "total_pages"),
        numberOf(group, "number"),
        percent(numberOf(slab, "used_chunks"), numberOf(slab, "total_chunks")),
        rateOf(sample, `items:${of}:evicted`, "items"),
        numberOf(group, "evicted"),
        numberOf(group, "evicted_time"),
        numberOf(group, "age"),
        numberOf(group, "outofmemory"),
      ];
    });
  },
};

const THREADS: View = {
  tables: ["threads"],
  sort: "thread",
  // deno-fmt-ignore
  columns: [
    ["thread", "text"], ["per s", "rate"], ["batches/s", "rate"], ["held%", "percent"], ["wait%", "percent"],
    ["waits/s", "rate"], ["retries/s", "rate"],
  ],
  rows: (sample) =>
    [...groupsOf(sample.now.get("threads") ?? null).keys()].map((thread) => {
      const rate = (stat: string): number => rateOf(sample, `${thread}:${stat}`, "threads");
      return [
        thread,
        rate("commands"),
        rate("batches"),
        rate("mutex_held_us") / 1e4,
        rate("mutex_wait_us") / 1e4,
        rate("mutex_waits"),
        rate("read_retries"),
      ];
    }),
};

const CONNECTIONS: View = {
  tables: ["conns"],
  sort: "idle",
  columns: [["cfd", "count"], ["address", "text"], ["state", "text"], ["idle", "seconds"]],
  rows: ({ now }) =>
    [...groupsOf(now.get("conns") ?? null)].map(([of, group]) => [
      Number(of),
      group.get("addr") ?? "",
      group.get("state") ?? "",
      numberOf(group, "secs_since_last_cmd"),
    ]),
};

const HOT_KEYS: View = {
  tables: ["hotkeys"],
  sort: "share%",
  // deno-fmt-ignore
  columns: [
    ["key", "text"], ["share%", "percent"], ["hits", "count"], ["misses", "count"], ["writes", "count"],
    ["samples", "count"],
  ],
  rows: ({ now }) =>
    [...groupsOf(now.get("hotkeys") ?? null).values()].map((group) => [
      group.get("key") ?? "",
      100 * numberOf(group, "share"),
      ...["hits", "misses", "writes", "samples"].map((stat) => numberOf(group, stat)),
    ]),
};

const LATENCY: View = {
  tables: ["latency"],
  sort: "per s",
  // deno-fmt-ignore
  columns: [
    ["kind", "text"], ["per s", "rate"], ["p50 us", "count"], ["p90 us", "count"], ["p99 us", "count"],
    ["p999 us", "count"], ["max us", "count"], ["mean us", "count"], ["total", "count"],
  ],
  rows: (sample) =>
    [...groupsOf(sample.now.get("latency") ?? null)]
      .filter(([, group]) => group.get("count") !== "0")
      .map(([kind, group]) => [
        kind,
        rateOf(sample, `${kind}:count`, "latency"),
        ...["p50", "p90", "p99", "p999", "max", "mean"].map((stat) =>
          numberOf(group, `${stat}_us`)
        ),
        numberOf(group, "count"),
      ]),
};

/** An origin or a node: what `stats rows` tells. */
const ROWS: View = {
  tables: ["rows"],
  sort: "statistic",
  columns: [["statistic", "text"], ["per s", "rate"], ["value", "count"]],
  rows: (sample) =>
    [...sample.now.get("rows") ?? []].map(([stat, value]) => [
      stat,
      rateOf(sample, stat, "rows"),
      Number(value),
    ]),
};

export const VIEWS: Readonly<Record<ViewName, View>> = {
  servers: SERVERS,
  commands: COMMANDS,
  classes: CLASSES,
  threads: THREADS,
  connections: CONNECTIONS,
  hotkeys: HOT_KEYS,
  latency: LATENCY,
  rows: ROWS,
};

/** Columns of a view for these servers. */
export function columnsOf({ columns }: View, servers: number): readonly Column[] {
  return columns === SERVERS.columns || servers < 2 ? columns : [["server", "text"], ...columns];
}

/** Rows of a view for these servers, in their order. */
export function rowsOf(view: View, samples: readonly Sample[]): Cell[][] {
  return samples.flatMap((sample) => {
    const rows = view.rows(sample);
    return view === SERVERS || samples.length < 2
      ? rows
      : rows.map((cells) => [sample.name, ...cells]);
  });
}

/** A counter's growth a second. A counter that was reset, or a server that was restarted, has none. */
function rateOf({ now, before, seconds }: Sample, stat: string, table = ""): number {
  const growth = numberOf(now.get(table) ?? null, stat) -
    numberOf(before?.get(table) ?? null, stat);
  return growth >= 0 && seconds > 0 ? growth / seconds : NaN;
}

function threadRate(sample: Sample, stat: string): number {
  const threads = [...groupsOf(sample.now.get("threads") ?? null).keys()];
  if (threads.length === 0) return NaN;
  return threads.reduce((sum, of) => sum + rateOf(sample, `${of}:${stat}`, "threads"), 0);
}

function percent(part: number, whole: number): number {
  return whole > 0 ? 100 * part / whole : NaN;
}
