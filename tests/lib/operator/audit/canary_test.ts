import { assertEquals, assertGreater, assertMatch, assertStringIncludes } from "@std/assert";
import { testDatabases } from "../../../support/servers/databases.ts";
import { startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { MAIN, ServerProcess, until } from "../../../support/servers/server_process.ts";
import { textOf } from "../../../support/sessions/side.ts";

const OK = 0;
const DIFFERENT = 1;
const USAGE = 64;
const UNAVAILABLE = 69;

interface Watched {
  readonly code: number;
  readonly lines: readonly string[];
  readonly stderr: string;
}

async function watch(origin: number, ...args: readonly string[]): Promise<Watched> {
  const server = ["audit", "--origin", `127.0.0.1:${origin}`, "--interval", "1"];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-net=127.0.0.1", MAIN, ...server, ...args],
    env: { NO_COLOR: "1" },
  }).output();
  return { code, lines: textOf(stdout).trimEnd().split("\n"), stderr: textOf(stderr) };
}

testDatabases("canaries of an origin and its node are never old", async (database) => {
  await using origin = await startOrigin(database);
  await using _node = await startNode([origin]);
  const { code, lines, stderr } = await watch(
    ...[origin.port, "--canary", "one,ключ", "--rounds", "20"] as const,
  );
  assertEquals(stderr, "");
  // Two keys, each read by two caches twice a round.
  assertEquals(lines, ["canary writes=40 unwritten=0 reads=160 unread=0 stale=0 lost=0"]);
  assertEquals(code, OK);
});

testDatabases("a canary finds a cache that keeps an old value", async (database) => {
  await using origin = await startOrigin(database);
  await using cache = await ServerProcess.start();
  using client = await cache.connect();
  await client.ask("set k 0 0 3\r\nold\r\n", "STORED\r\n");
  const { code, lines } = await watch(
    ...[origin.port, "--canary", "k", "--rounds", "3"] as const,
    ...["--cache", `127.0.0.1:${cache.port}`],
  );
  const [first, ...rest] = lines;
  assertStringIncludes(first!, `stale cache=127.0.0.1:${cache.port} key=k read=0 expected=1 at=20`);
  assertEquals(
    rest.at(-1),
    "canary writes=3 unwritten=0 reads=6 unread=0 stale=5 lost=0",
    "the first read of all has nothing to expect",
  );
  assertEquals(code, DIFFERENT);
});

testDatabases("a canary tells of another program that writes its key", async (database) => {
  await using origin = await startOrigin(database);
  using client = await origin.connect();
  let isEnded = false;
  const watched = watch(origin.port, "--canary", "k", "--rounds", "100")
    .finally(() => isEnded = true);
  while (!isEnded) await client.ask("set k 0 0 3\r\nfoe\r\n", "STORED\r\n");
  const { code, lines } = await watched;
  assertStringIncludes(lines[0]!, "lost cache=");
  assertGreater(Number(/ lost=(\d+)$/.exec(lines.at(-1)!)?.[1]), 0);
  assertEquals(code, DIFFERENT);
});

testDatabases("a canary goes on without its origin", async (database) => {
  const port = await (async () => {
    await using origin = await startOrigin(database);
    return origin.port;
  })();
  const { code, lines, stderr } = await watch(
    ...[port, "--canary", "k", "--rounds", "2", "--cache", `127.0.0.1:${port}`] as const,
  );
  assertEquals(lines, ["canary writes=0 unwritten=2 reads=0 unread=4 stale=0 lost=0"]);
  assertStringIncludes(stderr, `127.0.0.1:${port}: `);
  assertEquals(code, UNAVAILABLE);
});

testDatabases("a canary prints its counts at SIGTERM", async (database) => {
  await using origin = await startOrigin(database);
  using client = await origin.connect();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--allow-net=127.0.0.1", MAIN, "audit", "--canary", "k"],
      ...["--origin", `127.0.0.1:${origin.port}`],
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  await until(async () => {
    await client.send("get k\r\n");
    return (await client.until("END\r\n")).startsWith("VALUE");
  });
  child.kill("SIGTERM");
  const { code, stdout } = await child.output();
  assertMatch(
    textOf(stdout),
    /^canary writes=\d+ unwritten=0 reads=\d+ unread=0 stale=0 lost=0\n$/,
  );
  assertEquals(code, OK);
});

Deno.test("a key that no text command can have is no canary", async () => {
  const { code, stderr } = await watch(1, "--canary", "a b");
  assertStringIncludes(stderr, '--canary "a b": expected a key of 1 to 250 bytes');
  assertEquals(code, USAGE);
});
