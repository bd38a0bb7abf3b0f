import { assert, assertEquals } from "@std/assert";
import { COLUMNS, rowBetween, takeSnapshot } from "../../../lib/admin/dashboard/series.ts";
import { type Table, TABLES, type TableSource } from "../../../lib/admin/dashboard/tables.ts";
import { cacheMetric, opMetric, rowMetric, threadMetric } from "../../../lib/admin/metric_names.ts";
import { serverMetrics, statSource } from "../../../lib/admin/server_metrics.ts";
import { columnsOf, rowsOf, type ViewName, VIEWS } from "../../../lib/operator/top/views.ts";
import { counter, gauge, type Stat } from "../../../protocol/stats/entry.ts";
import { parseExposition } from "../../support/exposition.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

const ROW_STATS: readonly Stat[] = [
  { name: "puts_committed", value: 31, meaning: counter("", "rows written"), of: "" },
  { name: "nodes_member", value: 2, meaning: gauge("", "nodes"), of: "" },
  { name: "database_write_us", value: 1500, meaning: counter("microseconds", "writing"), of: "" },
];

/** A server's store with something of everything, and what each way to look at it says. */
class Watched extends ConversationSide {
  readonly peer = this.connect();
  readonly source: TableSource = {
    ...statSource(
      this.thread.cache,
      this.shared,
      this.thread.settings,
      () => ({ userMicroseconds: 1, systemMicroseconds: 2, accepting: true }),
    ),
    users: () => null,
    rowStats: () => ROW_STATS,
    nodes: () => [],
    rowTokens: () => [],
  };

  constructor() {
    super(["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", "-t", "2"]);
    const { peer } = this;
    const value = "x".repeat(900);
    for (let index = 0; index < 20; index++) {
      peer.ask(`set long${index} 0 0 900\r\n${value}\r\nset k${index} 0 0 2\r\n${index + 10}\r\n`);
    }
    peer.ask("get k1 k2 k3 long1 none1 none2\r\nget k1\r\n");
    peer.ask("incr k1 5\r\nincr none 1\r\ndecr k2 1\r\ndecr k3 1\r\ndecr none 1\r\n");
    peer.ask("cas k1 0 0 1 1\r\n1\r\ncas none 0 0 1 1\r\n1\r\ndelete k9\r\ndelete none\r\n");
    peer.ask("delete none\r\ntouch k4 0\r\ntouch k5 0\r\ntouch none 0\r\nlock k6\r\nlock k7\r\n");
    peer.ask("getss 60 lease1\r\ngetss 60 lease2\r\ngetss 60 lease3\r\ntoken get t1 web\r\n");
    peer.ask("get k1\r\nget k2\r\nget k3\r\nget k3\r\nset k1 0 1 1\r\n1\r\nset k2 0 1 1\r\n1\r\n");
    this.thread.times.record();
    this.advanceNow(3);
  }

  /** Returns the lines of a table of the text protocol. */
  table(name: string): Map<string, string> {
    const reply = this.peer.ask(`stats ${name}`.trimEnd() + "\r\n");
    assert(reply.endsWith("END\r\n"), reply);
    return new Map(
      [...reply.matchAll(/^STAT (\S+) (.*)\r$/gm)].map(([, stat, text]) => [stat!, text!]),
    );
  }
}

/** Statistics that the looks themselves change, or whose source is the process. */
const UNSTEADY = /^(?:rusage_.*|bytes_read|bytes_written|.*cmd_stats.*)$/;

/** The metrics of statistics, with the unit's factor from the statistic to the metric. */
function metricOf(name: string, unit: string): (stat: string) => string {
  return (stat) => `${name.replace("*", stat)}${unit}`;
}

Deno.test("/metrics has the values of stats, stats items, slabs, threads and ops", () => {
  using side = new Watched();
  const page = serverMetrics(side.source, () => ROW_STATS)();
  const families = parseExposition(page);
  const sample = (key: string): number | undefined =>
    families.get(key.replace(/\{.*/, ""))?.samples.get(key);
  const general = side.table("");
  const steady = metricOf("leased_*", "");
  // Those that are under a name of ours, without a unit.
  for (const stat of ["lease_curr", "lock_curr", "token_curr", "threads", "lock_waiting"]) {
    assertEquals(sample(steady(stat)), Number(general.get(stat)), stat);
    assert(Number(general.get(stat)) > 0 || stat === "lock_waiting", stat);
  }
  for (const [stat, key] of EXPORTED) {
    if (stat === "cmd_set") continue;
    const text = general.get(stat);
    assert(text !== undefined, stat);
    if (!UNSTEADY.test(stat) && stat !== "version") assertEquals(sample(key), Number(text), stat);
  }
  const sum = ["cas_hits", "cas_misses", "cas_badval"].reduce(
    (all, stat) => all + Number(general.get(stat)),
    0,
  );
  assertEquals(sum, 2);
  const sets = 'memcached_commands_total{command="set",status="hit"}';
  assertEquals(sample(sets), Number(general.get("cmd_set")) - sum);
  const slabs = new Map([
    ...side.table("slabs"),
    ...[...side.table("items")].map(([name, text]) => [name.slice("items:".length), text] as const),
  ]);
  let compared = 0;
  for (const [name, text] of slabs) {
    const [, of, stat] = /^(\d+):(.*)$/.exec(name) ?? [];
    const known = EXPORTED_OF_SLABS.find(([each]) => each === stat);
    if (known === undefined || stat === "cmd_set") continue;
    assertEquals(sample(known[1].replace("*", of!)), Number(text), name);
    compared++;
  }
  assert(compared > 40, `${compared}`);
  for (const [name, text] of side.table("threads")) {
    const [, of, stat] = /^(.*):(.*)$/.exec(name)!;
    if (!/^(?:mutex_waits|read_retries|read_fallbacks)$/.test(stat!)) continue;
    assertEquals(sample(`leased_thread_${stat}_total{thread="${of}"}`), Number(text), name);
  }
  for (const [name, text] of side.table("ops")) {
    const [, protocol, command] = /^(.*):(.*)$/.exec(name)!;
    if (command === "stats") continue;
    const key = `leased_requests_total{protocol="${protocol}",command="${command}"}`;
    assertEquals(sample(key), Number(text), name);
  }
  assertEquals(sample("memcached_up"), 1);
  const { version, runtime } = side.thread.settings;
  assertEquals(sample(`leased_build_info{version="${version}",runtime="${runtime}"}`), 1);
  assertEquals(sample(`memcached_version{version="${general.get("version")}"}`), 1);
  const helpOf = (name: string): string | undefined => families.get(name)?.help;
  assertEquals(helpOf("leased_rows_puts_committed_total"), "rows written");
  assertEquals(helpOf("leased_rows_database_write_seconds_total"), "seconds: writing");
  assertEquals(
    helpOf("memcached_commands_total"),
    "keys or commands, by what was asked for and what became of it",
  );
  assertEquals(sample("leased_rows_puts_committed_total"), 31);
  assertEquals(sample("leased_rows_nodes_member"), 2);
  assertEquals(sample("leased_rows_database_write_seconds_total"), 0.0015);
  assertEquals(sample("memcached_process_user_cpu_seconds_total"), 0.000001);
  assertEquals(sample("memcached_process_system_cpu_seconds_total"), 0.000002);
});

Deno.test("the histograms of /metrics count each request of stats latency once, below its bound", () => {
  using side = new Watched();
  const families = parseExposition(serverMetrics(side.source)());
  const { samples } = families.get("leased_request_duration_seconds")!;
  const latency = side.table("latency");
  const name = "leased_request_duration_seconds";
  for (const kind of ["get", "set", "delete", "arithmetic", "touch", "lock", "lease", "token"]) {
    const count = Number(latency.get(`${kind}:count`));
    assert(count > 0, kind);
    assertEquals(samples.get(`${name}_count{kind="${kind}"}`), count, kind);
    const buckets = [...samples].filter(([key]) => key.startsWith(`${name}_bucket{kind="${kind}"`));
    const bounds = buckets.map(([key]) =>
      Number(/le="([^"]+)"/.exec(key)![1]!.replace("+Inf", "Infinity"))
    );
    assertEquals(bounds.toSorted((a, b) => a - b), bounds);
    // Powers of two of microseconds.
    for (const bound of bounds.slice(0, -1)) {
      assertEquals(Math.log2(Math.round(bound * 1e6)) % 1, 0, `${bound}`);
    }
    assertEquals(buckets.at(-1)![1], count);
    // The test's clock stands still: no request takes a microsecond.
    assertEquals(buckets[0]![1], count);
  }
});

Deno.test("histograms are cumulative in powers of two, with sums in seconds, for each kind", () => {
  using side = new Watched();
  const length = side.source.times.histogram(0).counts.length;
  const times = {
    histogram: (kind: number) => {
      const counts = new Array<number>(length).fill(0);
      for (const [bucket, count] of [[0, 1], [7, 2], [8, 4], [20, 8], [length - 1, 16]] as const) {
        counts[bucket] = count;
      }
      return { counts, sumUs: 2_500_000 + kind };
    },
  } as unknown as TableSource["times"];
  const families = parseExposition(serverMetrics({ ...side.source, times })());
  const { samples } = families.get("leased_request_duration_seconds")!;
  const of = (suffix: string, labels: string): number | undefined =>
    samples.get(`leased_request_duration_seconds_${suffix}{${labels}}`);
  for (const [index, kind] of ["get", "set", "delete"].entries()) {
    const label = `kind="${kind}"`;
    const counts = ["0.000008", "0.000016", "0.000032", "0.000064", "67.108864", "+Inf"].map((le) =>
      of("bucket", `${label},le="${le}"`)
    );
    assertEquals(counts, [3, 7, 15, 15, 15, 31]);
    assertEquals(of("sum", label), (2_500_000 + index) / 1e6);
    assertEquals(of("count", label), 31);
  }
});

Deno.test("figures are read under the mutex, which is given back", () => {
  using side = new Watched();
  const { cache } = side.source;
  const { enter, leave } = cache;
  let depth = 0;
  let holds = 0;
  const visits: number[] = [];
  cache.enter = () => {
    enter.call(cache);
    depth++;
    holds++;
  };
  cache.leave = () => {
    depth--;
    leave.call(cache);
  };
  const { connections } = side.source;
  const watched: TableSource = {
    ...side.source,
    get connections() {
      visits.push(depth);
      return connections;
    },
  };
  const reads: readonly (() => void)[] = [
    () => void serverMetrics(watched)(),
    () => void takeSnapshot(watched, [], 0),
    () => void TABLES["classes"]!.read(watched, ""),
    () => void TABLES["locks"]!.read(watched, ""),
    () => void TABLES["leases"]!.read(watched, ""),
    () => void TABLES["tokens"]!.read(watched, ""),
    () => void TABLES["tokens"]!.read(watched, "web"),
  ];
  for (const [index, read] of reads.entries()) {
    holds = 0;
    visits.length = 0;
    read();
    assert(holds > 0, `${index}`);
    assertEquals(depth, 0, `${index}`);
    if (index < 2) {
      assert(visits.length > 0 && visits.every((each) => each === 1), `${index} ${visits}`);
    }
  }
  assertEquals([cache.enter === enter, holds > 0], [false, true]);
  Object.assign(cache, { enter, leave });
});

Deno.test("the dashboard's plots have the values of stats, summed over classes and threads", () => {
  using side = new Watched();
  const { stats } = takeSnapshot(side.source, ROW_STATS, 5000);
  const general = side.table("");
  for (const [name, text] of general) {
    const value = Number(text);
    if (UNSTEADY.test(name) || Number.isNaN(value) || !stats.has(name)) continue;
    assertEquals(stats.get(name), value, name);
  }
  const summed = (table: string, stat: string): number =>
    [...side.table(table)].filter(([name]) => name.endsWith(`:${stat}`))
      .reduce((sum, [, text]) => sum + Number(text), 0);
  for (const stat of ["number", "evicted", "mem_requested"]) {
    assertEquals(stats.get(`class_${stat}`), summed("items", stat), stat);
  }
  const again = takeSnapshot(side.source, [], 6000).stats;
  const batches = summed("threads", "batches");
  // Further ones are those of the tables that were asked for.
  assert(stats.get("thread_batches")! < batches && again.get("thread_batches")! <= batches);
  assertEquals(stats.get("total_malloced"), Number(side.table("slabs").get("total_malloced")));
  assertEquals(stats.get("rows_puts_committed"), 31);
  assertEquals([...stats.keys()].filter((name) => /^\d|:/.test(name)), []);
});

Deno.test("a row of the plots has its rates by second, its states as they are, and its columns", () => {
  using side = new Watched();
  const before = takeSnapshot(side.source, ROW_STATS, 5000);
  side.peer.ask(
    "get k3\r\nget k3\r\nget k3\r\nget k3\r\nget none\r\nget none\r\nset k3 0 0 1\r\n1\r\n",
  );
  side.thread.times.record();
  const rows = ROW_STATS.map((each) => ({ ...each, value: Number(each.value) * 3 }));
  const after = takeSnapshot(side.source, rows, 7000);
  const values = rowBetween(before, after);
  assertEquals(values.length, COLUMNS.length);
  const row = new Map(COLUMNS.map((name, index) => [name, values[index]]));
  const of = (...names: readonly string[]): unknown[] => names.map((name) => row.get(name));
  assertEquals(of("get_hits", "get_misses", "evictions"), [2, 1, 0]);
  assertEquals(of("requests_get", "requests_set", "requests_lock"), [3, 0.5, 0]);
  assertEquals(of("rows_puts_committed", "rows_nodes_member"), [31, 6]);
  assertEquals(of("rows_database_write_us", "rows_node_reads"), [1500, NaN]);
  assertEquals(of("lease_curr", "lock_curr", "token_curr", "quarantine"), [3, 2, 1, 0]);
  assertEquals(of("p50_us", "p99_us", "p999_us"), [1, 1, 1]);
  // Two looks at once, and a reset between two looks.
  const idle = new Map(rowBetween(after, after).map((value, index) => [COLUMNS[index]!, value]));
  assertEquals([idle.get("get_hits"), idle.get("p50_us")], [0, NaN]);
  const reset = new Map(
    rowBetween(after, { ...before, atMs: 8000 }).map((value, index) => [COLUMNS[index]!, value]),
  );
  assertEquals(reset.get("get_hits"), before.stats.get("get_hits"));
  assertEquals(reset.get("requests_get"), 6);
});

/** Returns the rows of a table by the names of its columns. */
function rowsByColumn({ columns, rows }: Table): Record<string, unknown>[] {
  return rows.map((cells) => Object.fromEntries(columns.map((name, at) => [name, cells[at]])));
}

Deno.test("the dashboard's tables of classes and threads have the values of stats", () => {
  using side = new Watched();
  const classes = rowsByColumn(TABLES["classes"]!.read(side.source, ""));
  const items = side.table("items");
  const slabs = side.table("slabs");
  const inItems = ["number", "mem_requested", "evicted", "evicted_time", "age"];
  const inSlabs = [
    "chunk_size",
    "total_pages",
    "used_chunks",
    "free_chunks",
    "get_hits",
    "cmd_set",
  ];
  assert(classes.length >= 2);
  for (const row of classes) {
    for (const stat of inItems) {
      assertEquals(row[stat], Number(items.get(`items:${row["class"]}:${stat}`)), stat);
    }
    for (const stat of inSlabs) {
      assertEquals(row[stat], Number(slabs.get(`${row["class"]}:${stat}`)), stat);
    }
    assert(Number(row["waste_percent"]) >= 0);
  }
  const lines = side.table("threads");
  const threads = rowsByColumn(TABLES["threads"]!.read(side.source, ""));
  assertEquals(threads.map((row) => row["thread"]), [0, 1, "maintenance"]);
  for (const row of threads) {
    for (
      const stat of ["batches", "mutex_waits", "mutex_wait_us", "read_retries", "read_fallbacks"]
    ) {
      assertEquals(`${row[stat]}`, lines.get(`${row["thread"]}:${stat}`), stat);
    }
  }
});

Deno.test("leased top shows the values of stats, and knows every name that it asks for", () => {
  using side = new Watched();
  const now = new Map(
    ["", "threads", "latency", "ops", "items", "slabs", "conns", "hotkeys"].map((name) =>
      [name, side.table(name)] as const
    ),
  );
  const sample = { name: "one:1", reason: "", now, before: now, seconds: 1 };
  const rowsOfView = (view: ViewName): Record<string, unknown>[] => {
    const titles = columnsOf(VIEWS[view], 1).map(([title]) => title);
    return rowsOf(VIEWS[view], [sample]).map((cells) =>
      Object.fromEntries(titles.map((title, at) => [title, cells[at]]))
    );
  };
  // Nothing is unknown but the shares of counters that stood still, and rows without a database.
  const unknown = rowsOfView("servers").flatMap((row) =>
    Object.entries(row).filter(([, value]) => Number.isNaN(value)).map(([title]) => title)
  );
  assertEquals(unknown, ["hit%", "wait%", "rows/s", "wrong"]);
  const [server] = rowsOfView("servers");
  assertEquals([server!["leases"], server!["locks"], server!["tokens"]], [3, 2, 1]);
  for (const view of ["commands", "classes", "threads", "connections", "latency"] as const) {
    const rows = rowsOfView(view);
    assert(rows.length > 0, view);
    for (const row of rows) {
      // It serves no commands.
      if (row["thread"] === "maintenance") continue;
      for (const [title, value] of Object.entries(row)) {
        assert(value !== "" && !Number.isNaN(value), `${view}: ${title} ${JSON.stringify(row)}`);
      }
    }
  }
});

/** Metrics of memcached_exporter 0.16.0, by the statistics of `stats` that they show. */
// deno-fmt-ignore
const EXPORTED: readonly (readonly [stat: string, metric: string])[] = [
  ...["get", "delete", "incr", "decr", "cas", "touch"].flatMap((command) =>
    [["hits", "hit"], ["misses", "miss"]].map(([suffix, status]) =>
      [`${command}_${suffix}`, `memcached_commands_total{command="${command}",status="${status}"}`] as const)),
  ["cas_badval", 'memcached_commands_total{command="cas",status="badval"}'],
  ["cmd_set", 'memcached_commands_total{command="set",status="hit"}'],
  ["cmd_flush", 'memcached_commands_total{command="flush",status="hit"}'],
  ["uptime", "memcached_uptime_seconds"],
  ["time", "memcached_time_seconds"],
  ["version", "memcached_version"],
  ["rusage_user", "memcached_process_user_cpu_seconds_total"],
  ["rusage_system", "memcached_process_system_cpu_seconds_total"],
  ["max_connections", "memcached_max_connections"],
  ["curr_connections", "memcached_current_connections"],
  ["total_connections", "memcached_connections_total"],
  ["rejected_connections", "memcached_connections_rejected_total"],
  ["conn_yields", "memcached_connections_yielded_total"],
  ["listen_disabled_num", "memcached_connections_listener_disabled_total"],
  ["accepting_conns", "memcached_accepting_connections"],
  ["bytes_read", "memcached_read_bytes_total"],
  ["bytes_written", "memcached_written_bytes_total"],
  ["bytes", "memcached_current_bytes"],
  ["limit_maxbytes", "memcached_limit_bytes"],
  ["curr_items", "memcached_current_items"],
  ["total_items", "memcached_items_total"],
  ["evictions", "memcached_items_evicted_total"],
  ["reclaimed", "memcached_items_reclaimed_total"],
  ["store_too_large", "memcached_item_too_large_total"],
  ["store_no_memory", "memcached_item_no_memory_total"],
  ["direct_reclaims", "memcached_direct_reclaims_total"],
  ["crawler_reclaimed", "memcached_lru_crawler_reclaimed_total"],
  ["crawler_items_checked", "memcached_lru_crawler_items_checked_total"],
  ["moves_to_warm", "memcached_lru_crawler_moves_to_warm_total"],
];

/** The same of `stats items` and `stats slabs`; `*`: the class. */
// deno-fmt-ignore
const EXPORTED_OF_SLABS: readonly (readonly [stat: string, metric: string])[] = [
  ...["get", "delete", "incr", "decr", "cas", "touch"].map((command) =>
    [`${command}_hits`, `memcached_slab_commands_total{slab="*",command="${command}",status="hit"}`] as const),
  ["cas_badval", 'memcached_slab_commands_total{slab="*",command="cas",status="badval"}'],
  ["cmd_set", 'memcached_slab_commands_total{slab="*",command="set",status="hit"}'],
  ["hits_to_warm", 'memcached_slab_lru_hits_total{slab="*",lru="warm"}'],
  ...[
    ["number", "current_items"], ["number_hot", "hot_items"], ["number_warm", "warm_items"],
    ["age", "items_age_seconds"], ["age_hot", "hot_age_seconds"], ["age_warm", "warm_age_seconds"],
    ["mem_requested", "mem_requested_bytes"], ["evicted", "items_evicted_total"],
    ["evicted_nonzero", "items_evicted_nonzero_total"], ["evicted_time", "items_evicted_time_seconds"],
    ["evicted_unfetched", "items_evicted_unfetched_total"], ["expired_unfetched", "items_expired_unfetched_total"],
    ["outofmemory", "items_outofmemory_total"], ["reclaimed", "items_reclaimed_total"],
    ["crawler_reclaimed", "items_crawler_reclaimed_total"], ["moves_to_warm", "items_moves_to_warm"],
    ["chunk_size", "chunk_size_bytes"], ["chunks_per_page", "chunks_per_page"], ["total_pages", "current_pages"],
    ["total_chunks", "current_chunks"], ["used_chunks", "chunks_used"], ["free_chunks", "chunks_free"],
  ].map(([stat, name]) => [stat!, `memcached_slab_${name}{slab="*"}`] as const),
];

Deno.test("each statistic of memcached_exporter has the exporter's name and labels, others ours", () => {
  const keyOf = (
    { name, labels }: { name: string; labels: Readonly<Record<string, string>> },
  ): string => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
    return pairs.length === 0 ? name : `${name}{${pairs.join()}}`;
  };
  const stat = (
    name: string,
    of = "",
    unit: "" | "seconds" | "microseconds" | "bytes" = "",
  ): Stat => ({
    name,
    value: 1,
    meaning: counter(unit, "x"),
    of,
  });
  for (const [name, key] of EXPORTED) assertEquals(keyOf(cacheMetric(stat(name))), key);
  for (const [name, key] of EXPORTED_OF_SLABS) {
    assertEquals(keyOf(cacheMetric(stat(name, "7"))), key.replace("*", "7"));
  }
  assertEquals(cacheMetric(stat("total_malloced")).name, "memcached_malloced_bytes");
  assertEquals(cacheMetric(stat("cmd_set")).less, ["cas_misses", "cas_hits", "cas_badval"]);
  assertEquals(cacheMetric(stat("get_hits")).less, []);
  assertEquals(keyOf(cacheMetric(stat("lock_ok"))), "leased_lock_ok_total");
  assertEquals(keyOf(cacheMetric(stat("cold", "7"))), 'leased_slab_cold_total{slab="7"}');
  assertEquals(
    keyOf(threadMetric(stat("mutex_wait_us", "1", "microseconds"))),
    'leased_thread_mutex_wait_seconds_total{thread="1"}',
  );
  assertEquals(keyOf(rowMetric(stat("log_bytes", "", "bytes"))), "leased_rows_log_bytes_total");
  assertEquals(
    keyOf(opMetric(stat("get", "text"))),
    'leased_requests_total{protocol="text",command="get"}',
  );
});
