import { assert, assertEquals } from "@std/assert";
import { isFailure, StepTimes } from "../../../lib/proxy/statistics/step_times.ts";
import { readDocument } from "../../support/docs/markdown.ts";
import { type MetricFamily, parseExposition, promtoolCheck } from "../../support/exposition.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { Setting } from "../../support/servers/proxy_setting.ts";
import type { ServerProcess } from "../../support/servers/server_process.ts";

const DOCUMENT = readDocument("docs/proxy.md").prose;
const STEPS = "cache_delete|database_read|database_write|database_outcome|database_note";

async function originOf(proxy: ServerProcess): Promise<string> {
  return /http:\/\/[^/]+/.exec(await proxy.line("metrics are at http://"))![0];
}

async function readPage(origin: string): Promise<string> {
  return await (await fetch(`${origin}/metrics`)).text();
}

/** All samples by name and labels. */
function samplesOf(families: ReadonlyMap<string, MetricFamily>): Map<string, number> {
  return new Map([...families.values()].flatMap(({ samples }) => [...samples]));
}

/** The names of the page's table of statistics, in its column. */
function documented(column: number): Set<string> {
  const section = DOCUMENT.slice(DOCUMENT.indexOf("## Statistics"));
  const rows = section.slice(0, section.indexOf("`STEP` is")).split("\n").filter((line) =>
    line.startsWith("| `")
  );
  const cells = rows.map((row) => /`([^`]+)`/.exec(row.split("|")[column]!)?.[1]);
  return new Set(cells.filter((cell) => cell !== undefined));
}

testDatabases(
  "the proxy's statistics are metrics, and docs/proxy.md has all of them",
  async (database) => {
    await using setting = await Setting.open(database, ["--metrics", "0"]);
    const client = await setting.connect();
    await client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    await client.ask("get k\r\nget k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n".repeat(2));
    await client.ask("cas k 0 0 1 9\r\ny\r\n", "EXISTS\r\n");
    await client.send("token get k\r\n");
    await client.until(/TOKEN \d+\r\n/);
    await client.send("uget k\r\n");
    await client.until("END\r\n");
    const origin = await originOf(setting.proxy);
    const page = await readPage(origin);
    await promtoolCheck(page);
    const families = parseExposition(page);
    const samples = samplesOf(families);
    const expected: Readonly<Record<string, number>> = {
      "leased_proxy_epoch": 1,
      "leased_proxy_deposed": 0,
      "leased_proxy_caches": 2,
      'leased_proxy_puts_total{result="committed"}': 1,
      'leased_proxy_puts_total{result="refused"}': 1,
      'leased_proxy_gets_total{mark="cacheable"}': 1,
      'leased_proxy_gets_total{mark="uncacheable"}': 1,
      'leased_proxy_tokens{state="idle"}': 1,
      'leased_proxy_tokens{state="used"}': 1,
      "leased_proxy_cache_hits_total": 1,
      "leased_proxy_cache_fills_total": 1,
      "leased_proxy_cache_delete_duration_seconds_count": 2,
      "leased_proxy_cache_delete_failures_total": 0,
      "leased_proxy_database_write_duration_seconds_count": 2,
    };
    for (const [key, value] of Object.entries(expected)) assertEquals(samples.get(key), value, key);
    assert(samples.get("leased_proxy_database_write_duration_seconds_sum")! > 0);
    // With those that watch the epoch.
    assert(samples.get("leased_proxy_database_read_duration_seconds_count")! >= 2);

    const stats = await client.stats();
    const lines = [...stats.matchAll(/^STAT (\w+) \d+\r$/gm)].map(([, name]) => name!);
    assertEquals(lines.length, stats.split("\r\n").length - 2);
    const general = lines.map((name) =>
      name.replace(new RegExp(`^(?:${STEPS})_(?=count|us|failures)`), "STEP_")
        .replace(/^tokens_.*/, "tokens_STATE").replace(/^gets_.*/, "gets_MARK")
        .replace(/^puts_.*/, "puts_RESULT")
    );
    assertEquals(new Set(general), documented(1));
    const metrics = [...families].map(([name, { samples: [first] }]) => {
      const label = /\{(\w+)=/.exec(first![0])?.[1] ?? "";
      const isLabelled = label !== "" && label !== "le";
      return name.replace(new RegExp(`_(?:${STEPS})_(?=duration|failures)`), "_STEP_") +
        (isLabelled ? `{${label}}` : "");
    });
    assertEquals(new Set(metrics), documented(4).union(new Set(["leased_build_info{version}"])));
  },
);

testDatabases(
  "a cache that does not answer is a failed deletion, and /health serves on",
  async (database) => {
    await using setting = await Setting.open(database, [
      "--metrics",
      "0",
      "--cache-timeout",
      "300",
    ]);
    const origin = await originOf(setting.proxy);
    const client = await setting.connect();
    await setting.caches[0]!.stop();
    await client.send("set k 0 0 1\r\nx\r\n");
    await client.until("\r\n");
    const samples = samplesOf(parseExposition(await readPage(origin)));
    assertEquals(samples.get("leased_proxy_cache_delete_failures_total"), 1);
    assertEquals(samples.get("leased_proxy_cache_delete_duration_seconds_count"), 1);
    assertEquals(samples.get('leased_proxy_puts_total{result="failed"}'), 1);
    const health = await fetch(`${origin}/health`);
    assertEquals([health.status, await health.text()], [200, "serving\n"]);
  },
);

Deno.test("times of steps are counted in the bucket whose bound they do not exceed", () => {
  const times = new StepTimes();
  times.add(0.5, false);
  times.add(0.6, true);
  times.add(20_000, false);
  assertEquals(times.counts[0], 1);
  assertEquals(times.counts[1], 1);
  assertEquals(times.counts.at(-1), 1);
  assertEquals([times.count, times.failures, times.sumMs], [3, 1, 20_001.1]);
});

Deno.test("a step has failed when the database says so", () => {
  assert(isFailure({ kind: "failed", reason: "" }));
  assert(isFailure({ kind: "unknown", reason: "" }));
  assert(!isFailure({ kind: "committed", version: 1 }));
  assert(!isFailure({ kind: "refused", row: null }));
  assert(!isFailure({ row: null, version: 0, epoch: 1 }));
  assert(!isFailure(undefined));
});
