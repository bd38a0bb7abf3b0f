import { assertEquals } from "@std/assert";
import {
  type Cell,
  columnsOf,
  rowsOf,
  type Sample,
  type Tables,
  type ViewName,
  VIEWS,
} from "../../../lib/operator/top/views.ts";

type Figures = Readonly<Record<string, number | string>>;

function tablesOf(tables: Readonly<Record<string, Figures>>): Tables {
  return new Map(
    Object.entries(tables).map(([name, figures]) => [
      name,
      new Map(Object.entries(figures).map(([stat, value]) => [stat, `${value}`])),
    ]),
  );
}

/** Two looks, `seconds` apart. */
function sampleOf(
  now: Readonly<Record<string, Figures>>,
  before: Readonly<Record<string, Figures>> | null = null,
  seconds = 2,
): Sample {
  return {
    name: "one:1",
    reason: "",
    now: tablesOf(now),
    before: before === null ? null : tablesOf(before),
    seconds,
  };
}

/** Returns the rows of a view, cells by the titles of their columns. */
function rowsByTitle(view: ViewName, ...samples: readonly Sample[]): Record<string, Cell>[] {
  const titles = columnsOf(VIEWS[view], samples.length).map(([title]) => title);
  return rowsOf(VIEWS[view], samples).map((cells) => {
    assertEquals(cells.length, titles.length);
    return Object.fromEntries(titles.map((title, at) => [title, cells[at]!]));
  });
}

Deno.test("the view of servers takes each figure from its own statistic", () => {
  const before = {
    "": { cmd_get: 10, cmd_set: 20, get_hits: 30, get_misses: 40, evictions: 50, bytes_read: 60 },
    threads: { "0:mutex_wait_us": 0, "0:mutex_held_us": 0 },
    rows: { puts_committed: 5 },
  };
  Object.assign(before[""], {
    ...{ bytes_written: 70, lease_wait_hint: 80, lease_badval: 1, strict_refused: 2 },
    token_refused: 3,
  });
  const now = {
    "": {
      ...{ cmd_get: 110, cmd_set: 222, get_hits: 90, get_misses: 60, evictions: 58 },
      ...{ bytes_read: 1060, bytes_written: 4070, lease_wait_hint: 86, lease_badval: 21 },
      ...{ strict_refused: 202, token_refused: 2003, bytes: 300, limit_maxbytes: 1200 },
      ...{ curr_items: 11, curr_connections: 12, lease_curr: 13, lock_curr: 14, token_curr: 15 },
      ...{ token_oldest_age: 16, uptime: 17, version: "1.2.3" },
    },
    threads: {
      ...{ "0:mutex_wait_us": 100, "0:mutex_held_us": 500 },
      ...{ "1:mutex_wait_us": 9, "1:mutex_held_us": 9 },
      ...{ "maintenance:mutex_wait_us": 50, "maintenance:mutex_held_us": 700 },
    },
    latency: { "all:p99_us": 41, "get:p99_us": 42 },
    rows: { puts_committed: 25, verified_wrong_day: 18 },
  };
  Object.assign(before.threads, {
    ...{ "1:mutex_wait_us": 9, "1:mutex_held_us": 9 },
    ...{ "maintenance:mutex_wait_us": 0, "maintenance:mutex_held_us": 0 },
  });
  assertEquals(rowsByTitle("servers", sampleOf(now, before)), [{
    ...{ server: "one:1", "get/s": 50, "set/s": 101, "hit%": 75, "p99 us": 41, mem: 300 },
    ...{ "mem%": 25, items: 11, conns: 12, "evict/s": 4, "in/s": 500, "out/s": 2000 },
    ...{ "wait%": 12.5, "saved/s": 3, "stale/s": 1110, "rows/s": 10, wrong: 18, leases: 13 },
    ...{ locks: 14, tokens: 15, oldest: 16, up: 17, version: "1.2.3" },
  }]);
});

Deno.test("the first look, a clock that stood still, and a restarted server have no rates", () => {
  const figures = { "": { cmd_get: 7 } };
  for (
    const [sample, rate] of [
      [sampleOf(figures), NaN],
      [sampleOf(figures, { "": { cmd_get: 5 } }, 0), NaN],
      [sampleOf(figures, { "": { cmd_get: 5 } }, 0.5), 4],
      [sampleOf(figures, { "": { cmd_get: 8 } }), NaN],
      [sampleOf(figures, figures), 0],
    ] as const
  ) assertEquals(rowsByTitle("servers", sample)[0]!["get/s"], rate);
  const [row] = rowsByTitle("servers", sampleOf({ "": { bytes: 1, limit_maxbytes: 0 } }));
  assertEquals([row!["mem%"], row!["hit%"], row!["wait%"]], [NaN, NaN, NaN]);
  const one = (us: number): Record<string, Figures> => ({
    "": { bytes: 1, limit_maxbytes: 1 },
    threads: { "0:mutex_wait_us": us, "0:mutex_held_us": us },
  });
  const [full] = rowsByTitle("servers", sampleOf(one(8), one(0)));
  assertEquals([full!["mem%"], full!["wait%"]], [100, 100]);
});

Deno.test("a server that cannot be reached has only its name, also beside old figures", () => {
  const sample = { ...sampleOf({ "": { cmd_get: 7, version: "1" } }), reason: "refused" };
  assertEquals(rowsOf(VIEWS.servers, [sample]), [["one:1"]]);
});

Deno.test("commands are those of stats ops; memcached's are the cmd_ of stats", () => {
  const ops = sampleOf(
    { "": { cmd_get: 9 }, ops: { "text:get": 30, "binary:Get": 0, "meta:mg": 4 } },
    { "": { cmd_get: 0 }, ops: { "text:get": 10, "meta:mg": 4 } },
  );
  assertEquals(rowsByTitle("commands", ops), [
    { command: "text:get", "per s": 10, total: 30 },
    { command: "meta:mg", "per s": 0, total: 4 },
  ]);
  const memcached: Sample = {
    ...sampleOf({ "": { cmd_get: 9, cmd_set: 0, curr_items: 5 } }, { "": { cmd_get: 1 } }),
    name: "two:2",
  };
  const now = new Map([...memcached.now, ["ops", null] as const]);
  assertEquals(rowsByTitle("commands", { ...memcached, now }), [
    { command: "get", "per s": 4, total: 9 },
  ]);
});

Deno.test("a slab class has figures of stats items and of stats slabs", () => {
  const items = {
    ...{ "items:5:number": 1, "items:5:evicted": 40, "items:5:evicted_time": 3 },
    ...{ "items:5:age": 4, "items:5:outofmemory": 6, "items:6:number": 2 },
  };
  const slabs = {
    ...{ "5:chunk_size": 96, "5:total_pages": 7, "5:used_chunks": 1, "5:total_chunks": 4 },
    ...{ "6:chunk_size": 120, active_slabs: 2 },
  };
  const sample = sampleOf({ items, slabs }, { items: { "items:5:evicted": 10 }, slabs: {} });
  const [first, second] = rowsByTitle("classes", sample);
  assertEquals(first, {
    ...{ class: 5, chunk: 96, pages: 7, items: 1, "used%": 25, "evict/s": 15, evicted: 40 },
    ...{ "evict age": 3, age: 4, "no memory": 6 },
  });
  assertEquals([second!["class"], second!["chunk"], second!["evicted"]], [6, 120, NaN]);
});

Deno.test("a thread's shares of time are percent of a second", () => {
  const stats = (factor: number): Figures => ({
    ...{ "0:commands": 10 * factor, "0:batches": 20 * factor, "0:mutex_held_us": 1e6 * factor },
    ...{ "0:mutex_wait_us": 5e5 * factor, "0:mutex_waits": 30 * factor },
    "0:read_retries": 40 * factor,
  });
  const sample = sampleOf({ threads: stats(2) }, { threads: stats(1) });
  assertEquals(rowsByTitle("threads", sample), [{
    ...{ thread: "0", "per s": 5, "batches/s": 10, "held%": 50, "wait%": 25, "waits/s": 15 },
    "retries/s": 20,
  }]);
});

Deno.test("connections, hot keys and latencies have the figures of their groups", () => {
  const conns = {
    ...{ "12:addr": "tcp:127.0.0.1:5", "12:state": "conn_read", "12:secs_since_last_cmd": 8 },
    "13:state": "conn_listening",
  };
  assertEquals(rowsByTitle("connections", sampleOf({ conns })), [
    { cfd: 12, address: "tcp:127.0.0.1:5", state: "conn_read", idle: 8 },
    { cfd: 13, address: "", state: "conn_listening", idle: NaN },
  ]);
  const hotkeys = {
    ...{ samples: 9, "1:key": "a:b", "1:share": 0.25, "1:hits": 1, "1:misses": 2 },
    ...{ "1:writes": 3, "1:samples": 4 },
  };
  assertEquals(rowsByTitle("hotkeys", sampleOf({ hotkeys })), [
    { key: "a:b", "share%": 25, hits: 1, misses: 2, writes: 3, samples: 4 },
  ]);
  const latency = {
    ...{ "get:count": 30, "get:p50_us": 1, "get:p90_us": 2, "get:p99_us": 3, "get:p999_us": 4 },
    ...{ "get:max_us": 5, "get:mean_us": 6, "set:count": 0, "set:p50_us": 1 },
  };
  assertEquals(rowsByTitle("latency", sampleOf({ latency }, { latency: { "get:count": 10 } })), [{
    ...{ kind: "get", "per s": 10, "p50 us": 1, "p90 us": 2, "p99 us": 3, "p999 us": 4 },
    ...{ "max us": 5, "mean us": 6, total: 30 },
  }]);
});

Deno.test("rows of several servers begin with the server, but not those of the servers' view", () => {
  const sample = sampleOf({ rows: { puts_committed: 3 } }, { rows: { puts_committed: 1 } });
  const other: Sample = { ...sample, name: "two:2" };
  assertEquals(rowsByTitle("rows", sample), [{
    statistic: "puts_committed",
    "per s": 1,
    value: 3,
  }]);
  assertEquals(rowsByTitle("rows", sample, other).map((row) => row["server"]), ["one:1", "two:2"]);
  assertEquals(columnsOf(VIEWS.rows, 2)[0], ["server", "text"]);
  assertEquals(columnsOf(VIEWS.servers, 2), VIEWS.servers.columns);
  assertEquals(rowsOf(VIEWS.servers, [sample, other]).map(([name]) => name), ["one:1", "two:2"]);
});

Deno.test("each view asks only for the tables that its rows come from", () => {
  const asked = Object.entries(VIEWS).map(([name, { tables }]) => [name, tables.join()]);
  assertEquals(Object.fromEntries(asked), {
    servers: ",threads,latency,rows",
    commands: ",ops",
    classes: "items,slabs",
    threads: "threads",
    connections: "conns",
    hotkeys: "hotkeys",
    latency: "latency",
    rows: "rows",
  });
});
