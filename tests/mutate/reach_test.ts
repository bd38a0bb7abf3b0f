import { assertEquals } from "@std/assert";
import type { Source } from "../support/sources.ts";
import { Reach } from "./reach.ts";
import { MeasuredTests, type TestFile } from "./test_files.ts";

const FILE = "lib/room/part.ts";
const SERVER = "tests/support/servers/server_process.ts";

/** Tests that import the file, and some that start a server, which imports it. */
function sourcesOf(own: readonly string[], servers: readonly string[] = []): Source[] {
  const source = (path: string, ...imports: string[]): Source => ({ path, text: "", imports });
  return [
    ...own.map((path) => source(path, FILE)),
    ...servers.map((path) => source(path, SERVER)),
    ...[source(SERVER), source("main.ts", FILE), source(FILE)],
  ];
}

function testFile(path: string, cpuSec: number, ...lines: number[]): TestFile {
  return { path, cpuSec, lines: new Map([[FILE, new Set(lines)]]) };
}

/** The tests that are found for line 7, among those. */
async function found(
  sources: readonly Source[],
  measured: MeasuredTests,
  ...tests: TestFile[]
): Promise<string[]> {
  const measure = (path: string): Promise<TestFile | null> =>
    Promise.resolve(tests.find((test) => test.path === path) ?? null);
  const names: string[] = [];
  const reach = new Reach({ measure }, sources, measured);
  for await (const { path } of reach.testsFor(FILE, 7)) names.push(path);
  return names;
}

Deno.test("Reach: only tests that run the line are found, the cheapest first", async () => {
  const [costly, other, cheap] = ["a", "b", "c"].map((name) => `tests/lib/room/${name}_test.ts`);
  const sources = sourcesOf([costly!, other!, cheap!]);
  const measured = new MeasuredTests(undefined, sources);
  measured.add(testFile(costly!, 9, 7));
  measured.add(testFile(other!, 1, 4, 8));
  measured.add(testFile(cheap!, 1, 4, 7));
  assertEquals(await found(sources, measured), [cheap, costly]);
});

Deno.test("Reach: measures the test of the file's name first, then those that import it, servers if need be", async () => {
  const [near, far, mirrored] = [
    "tests/x_test.ts",
    "tests/y_test.ts",
    "tests/lib/room/part_test.ts",
  ];
  const server = "tests/lib/room/server_test.ts";
  const sources = sourcesOf([far!, mirrored!], [server]);
  sources.push({ path: near!, text: "", imports: [FILE, far!] });
  const measured = new MeasuredTests(undefined, sources);
  const tests = [server, far!, near!, mirrored!].map((path) => testFile(path, 1, 7));
  assertEquals(await found(sources, measured, ...tests), [mirrored, far, near]);
  const others = tests.map((test) => test.path === server ? test : testFile(test.path, 1, 4));
  const unmeasured = new MeasuredTests(undefined, sources);
  assertEquals(await found(sources, unmeasured, ...others), [server]);
});

Deno.test("Reach: a line that is run in part is known by the lines before it", async () => {
  const [part, none] = ["a", "b"].map((name) => `tests/lib/room/${name}_test.ts`);
  const sources = sourcesOf([part!, none!]);
  const measured = new MeasuredTests(undefined, sources);
  measured.add(testFile(part!, 1, 5, 9));
  measured.add(testFile(none!, 1, 4, 9));
  assertEquals(await found(sources, measured), [part]);
});
