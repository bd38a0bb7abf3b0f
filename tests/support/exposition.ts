import { assertEquals } from "@std/assert";

// A strict reader of Prometheus's text format 0.0.4, after
// https://prometheus.io/docs/instrumenting/exposition_formats/ and the rules of `promtool check metrics`.

/** One metric family. */
export interface MetricFamily {
  readonly type: string;
  readonly help: string;
  /** Values by name and labels, as the page writes them: `name{label="value"}`. */
  readonly samples: Map<string, number>;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y;
const VALUE = /^(?:[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?)|[+-]Inf|NaN)$/;
const TYPES = ["counter", "gauge", "histogram"];
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  histogram: ["_bucket", "_sum", "_count"],
};

/** Reads a page. @throws Error that names the line that breaks a rule. */
export function parseExposition(page: string): Map<string, MetricFamily> {
  const families = new Map<string, MetricFamily>();
  let current = "";
  let help: readonly [name: string, text: string] | null = null;
  if (!page.endsWith("\n")) throw new Error("the last line has no end");
  for (const line of page.slice(0, -1).split("\n")) {
    const fail = (reason: string): never => {
      throw new Error(`${reason}: ${line}`);
    };
    const [, kind, name = "", text = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === "HELP") {
      if (help !== null) fail("HELP behind HELP");
      if (families.has(name)) fail("HELP for the second time");
      if (!NAME.test(name)) fail("malformed name");
      if (text.trim() === "") fail("HELP says nothing");
      if (!/^(?:[^\\]|\\[\\n])*$/.test(text)) fail("malformed escape");
      help = [name, text];
      continue;
    }
    if (kind === "TYPE") {
      if (help?.[0] !== name) fail("TYPE without its HELP");
      if (!TYPES.includes(text)) fail("unknown type");
      lintName(name, text, fail);
      families.set(current = name, { type: text, help: help![1], samples: new Map() });
      help = null;
      continue;
    }
    if (help !== null) fail("HELP without TYPE");
    const [, sample = "", braces, labels = "", value = ""] = SAMPLE.exec(line) ?? [];
    const family = families.get(current) ?? fail("sample without TYPE");
    const names = SUFFIXES[family.type]?.map((suffix) => current + suffix) ?? [current];
    if (!names.includes(sample)) fail(`not a sample of ${current}`);
    if (!VALUE.test(value)) fail("malformed value");
    if (family.type === "counter" && !(Number(value) >= 0)) fail("negative counter");
    if (braces !== undefined) checkLabels(labels, fail);
    const key = sample + (braces ?? "");
    if (family.samples.has(key)) fail("sample for the second time");
    family.samples.set(key, Number(value));
  }
  for (const [name, family] of families) {
    if (family.samples.size === 0) throw new Error(`${name} has no sample`);
    if (family.type === "histogram") checkHistogram(name, family);
  }
  return families;
}

/** Names that break a rule in memcached_exporter too. */
const INHERITED = ["memcached_slab_items_moves_to_warm"];

function lintName(name: string, type: string, fail: (reason: string) => never): void {
  const isTotal = name.endsWith("_total");
  if (type === "counter" && !isTotal && !INHERITED.includes(name)) fail("counter without _total");
  if (type !== "counter" && isTotal) fail("_total is for counters");
  if (/_(?:count|sum|bucket|info_total)$/.test(name)) fail("reserved ending");
  if (/_(?:ms|us|kb|milliseconds|microseconds|percent)(?:_|$)/.test(name)) fail("no base unit");
  if (/[A-Z]|__/.test(name)) fail("not snake case");
}

function checkLabels(labels: string, fail: (reason: string) => never): void {
  const seen = new Set<string>();
  LABEL.lastIndex = 0;
  for (let end = 0; end < labels.length; end = LABEL.lastIndex) {
    LABEL.lastIndex = end;
    const [, name] = LABEL.exec(labels) ?? fail("malformed labels");
    if (seen.has(name!) || name!.startsWith("__")) fail("malformed labels");
    seen.add(name!);
  }
  if (labels === "" || labels.endsWith(",")) fail("malformed labels");
}

function checkHistogram(name: string, { samples }: MetricFamily): void {
  const buckets = [...samples].filter(([key]) => key.startsWith(`${name}_bucket`));
  const ofLabels = Map.groupBy(buckets, ([key]) => key.replace(/,?le="[^"]*"/, ""));
  for (const [bucket, group] of ofLabels) {
    const counts = group.map(([, count]) => count);
    const bounds = group.map(([key]) =>
      Number(/le="([^"]+)"/.exec(key)![1]!.replace("+Inf", "Infinity"))
    );
    if (!isSorted(counts) || !isSorted(bounds)) throw new Error(`${bucket} is not cumulative`);
    const count = samples.get(bucket.replace("_bucket", "_count").replace("{}", ""));
    if (bounds.at(-1) !== Infinity || counts.at(-1) !== count) {
      throw new Error(`${bucket}: the last one is not the count`);
    }
  }
}

function isSorted(numbers: readonly number[]): boolean {
  return numbers.every((number, index) => index === 0 || number >= numbers[index - 1]!);
}

/** Runs `promtool check metrics` over a page, if Debian's package prometheus is installed. */
export async function promtoolCheck(page: string): Promise<void> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("promtool", {
      args: ["check", "metrics"],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(page));
  await writer.close();
  const { stdout, stderr } = await child.output();
  const lines = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assertEquals(lines.split("\n").filter((line) => line !== "" && !isInherited(line)), []);
}

function isInherited(line: string): boolean {
  return INHERITED.some((name) => line.startsWith(name));
}
