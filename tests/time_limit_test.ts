import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { path } from "./support/servers/server_process.ts";
import { textOf } from "./support/sessions/side.ts";
import { waitedFor, waitingFor } from "./support/waiting.ts";

const PRELOAD = "tests/support/time_limit.ts";

/** Runs a test file with a short limit. Returns what the runner prints, then the tools that it recorded. */
async function run(source: string): Promise<string> {
  const folder = await Deno.makeTempDir();
  const file = `${folder}/some_test.ts`;
  await Deno.writeTextFile(file, source);
  // A file of its own: the tools of a test of tests are not those of the run that holds it.
  const needs = `${folder}/needs`;
  await Deno.writeTextFile(needs, "");
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-lock", "--no-check", "--allow-all", `--preload=${path(PRELOAD)}`, file],
    cwd: path("."),
    env: { NO_COLOR: "1", LEASED_TESTS_LIMIT_MS: "500", LEASED_TESTS_NEEDS: needs },
    stdin: "null",
  }).output();
  const records = await Deno.readTextFile(needs);
  await Deno.remove(folder, { recursive: true });
  assert(!success);
  return textOf(stdout) + textOf(stderr) + records;
}

Deno.test("a test that waits too long fails with its name, its place and what it waited for", async () => {
  const output = await run(`
import { waitingFor } from "${path("tests/support/waiting.ts")}";
const never = new Promise<void>(() => setInterval(() => {}, 1000));
Deno.test({ name: "named", sanitizeOps: false, fn: () => waitingFor("rain", never) });
Deno.test("unnamed", { sanitizeOps: false }, () => never);
Deno.test("quick", () => {});
Deno.test({ name: "quick too" }, () => {});
Deno.test(function quickWithItsOwnName() {});
Deno.test({ ignore: true }, function never() {});
`);
  assertStringIncludes(output, '"named" is not done after 500 ms; it waits for: rain');
  assertStringIncludes(output, '"unnamed" is not done after 500 ms; it waits for: ');
  assertStringIncludes(output, "some_test.ts:4:6");
  assertStringIncludes(output, "3 passed | 2 failed | 1 ignored");
});

Deno.test("a test that never returns to the event loop is ended by the runner", async () => {
  const output = await run(`
Deno.test("busy", () => {
  for (;;);
});
`);
  assertStringIncludes(output, "busy => ");
  assertStringIncludes(output, "Test timed out after 1000ms");
});

Deno.test("deno task test loads the time limit before every file", () => {
  const { tasks } = JSON.parse(Deno.readTextFileSync(path("deno.json")));
  assertEquals(/--preload=(\S+)/.exec(tasks.test.command)?.[1], PRELOAD);
});

Deno.test("a wait ends with the name of what did not happen, before the test's limit does", async () => {
  const never = new Promise<void>(() => {});
  await assertRejects(
    () => waitingFor(() => "rain", never, 1),
    Error,
    "waited in vain for 1 ms for: rain",
  );
  assertEquals(await waitingFor("sun", Promise.resolve(1), 1), 1);
  assertEquals(waitedFor(), []);
});

Deno.test("a test that finds a tool missing says so, and is recorded", async () => {
  const output = await run(`
import { needNow } from "${path("tests/support/needs/needs.ts")}";
Deno.test("with it", () => needNow("paper", true));
Deno.test("without it", () => needNow("pens", false));
Deno.test("red", () => { throw new Error("red"); });
`);
  assertStringIncludes(output, "ignored: this test needs pens, which this machine lacks");
  assertStringIncludes(output, "2 passed | 1 failed");
  assertStringIncludes(output, "pens missing\n");
});
