import { assertEquals, assertThrows } from "@std/assert";
import { Exposition, ownName } from "../../../lib/admin/exposition.ts";
import { counter, gauge, info, type Stat } from "../../../protocol/stats/entry.ts";
import { parseExposition } from "../../support/exposition.ts";

function stat(name: string, value: string | number, meaning: Stat["meaning"]): Stat {
  return { name, value, meaning, of: "" };
}

Deno.test("an exposition groups the samples of a name, and escapes help and labels", () => {
  const exposition = new Exposition();
  const add = (name: string, of: string, value: number): void =>
    exposition.add("counter", { name, labels: { of }, help: 'a\\b\n"c"' }, value);
  add("a_total", 'x"\\\n', 1);
  add("b_total", "y", 2);
  add("a_total", "z", 3);
  const page = exposition.text();
  assertEquals(
    page,
    '# HELP a_total a\\\\b\\n"c"\n# TYPE a_total counter\na_total{of="x\\"\\\\\\n"} 1\na_total{of="z"} 3\n' +
      '# HELP b_total a\\\\b\\n"c"\n# TYPE b_total counter\nb_total{of="y"} 2\n',
  );
  assertEquals([...parseExposition(page).keys()], ["a_total", "b_total"]);
});

Deno.test("statistics become metrics in base units; constants do not; a text is a label", () => {
  const exposition = new Exposition();
  const stats = [
    stat("lock_wait_ms", 1500, counter("milliseconds", "spent")),
    stat("mutex_wait_us", 3, counter("microseconds", "spent")),
    stat("rusage", "1.000007", counter("seconds", "spent")),
    stat("bytes", 5, gauge("bytes", "of items")),
    stat("age", 7, gauge("seconds", "of the oldest")),
    stat("pid", 9, undefined),
    stat("version", "1.6", info("of it")),
  ];
  for (const each of stats) {
    exposition.addStat(each, { name: ownName("leased_", each), labels: {} });
  }
  const samples = [...parseExposition(exposition.text()).values()].flatMap(({ samples }) => [
    ...samples,
  ]);
  assertEquals(samples, [
    ["leased_lock_wait_seconds_total", 1.5],
    ["leased_mutex_wait_seconds_total", 0.000003],
    ["leased_rusage_seconds_total", 1.000007],
    ["leased_bytes", 5],
    ["leased_age_seconds", 7],
    ['leased_version{version="1.6"}', 1],
  ]);
});

Deno.test("a histogram is cumulative, in seconds", () => {
  const exposition = new Exposition();
  const metric = { name: "h_seconds", labels: { of: "x" }, help: "h" };
  exposition.addHistogram(metric, { boundsMs: [0.5, 1000], counts: [2, 0, 1], sumMs: 5001.5 });
  assertEquals([...parseExposition(exposition.text()).get("h_seconds")!.samples], [
    ['h_seconds_bucket{of="x",le="0.0005"}', 2],
    ['h_seconds_bucket{of="x",le="1"}', 2],
    ['h_seconds_bucket{of="x",le="+Inf"}', 3],
    ['h_seconds_sum{of="x"}', 5.0015],
    ['h_seconds_count{of="x"}', 3],
  ]);
});

Deno.test("the reader of tests refuses pages that break the format", () => {
  const head = "# HELP a_total x\n# TYPE a_total counter\n";
  const bad = [
    head,
    "a_total 1\n",
    `${head}a_total 1`,
    `${head}a_total one\n`,
    `${head}a_total -1\n`,
    `${head}a_total 1\na_total 2\n`,
    `${head}b_total 1\n`,
    `${head}a_total{x=y} 1\n`,
    `${head}a_total{x="y",} 1\n`,
    `${head}a_total{x="a\\b"} 1\n`,
    `${head}a_total 1\n\n`,
    `${head}a_total 1\n${head}`,
    "# HELP a x\n# TYPE a counter\na 1\n",
    "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n",
    "# TYPE a gauge\na 1\n",
  ];
  for (const page of bad) assertThrows(() => parseExposition(page));
});
