import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type MetricFamily, parseExposition, promtoolCheck } from "../../support/exposition.ts";
import {
  type Client,
  leastPermissions,
  runToEnd,
  ServerProcess,
  testTransports,
  until,
} from "../../support/servers/server_process.ts";

const LOOPBACK = "--allow-net=127.0.0.1";

/** Returns where a server says that its metrics are. */
async function originOf(server: ServerProcess): Promise<string> {
  return /http:\/\/[^/]+/.exec(await server.line("metrics are at http://"))![0];
}

async function read(origin: string): Promise<Map<string, MetricFamily>> {
  const reply = await fetch(`${origin}/metrics`);
  assertEquals(reply.status, 200);
  return parseExposition(await reply.text());
}

/** A sample by its name and labels. */
function sample(families: ReadonlyMap<string, MetricFamily>, key: string): number | undefined {
  return families.get(key.replace(/\{.*/, ""))?.samples.get(key);
}

function permissions(io: "portable" | "native"): string[] {
  return [...new Set([...leastPermissions(io), LOOPBACK])];
}

/** Metrics of memcached_exporter 0.16.0 (pkg/exporter/exporter.go) for parts of memcached that this server has. */
const EXPORTED = `
  up uptime_seconds time_seconds version process_user_cpu_seconds_total process_system_cpu_seconds_total
  read_bytes_total written_bytes_total current_connections max_connections connections_total connections_rejected_total
  connections_yielded_total connections_listener_disabled_total current_bytes limit_bytes commands_total current_items
  items_total items_evicted_total items_reclaimed_total item_too_large_total item_no_memory_total direct_reclaims_total
  lru_crawler_reclaimed_total lru_crawler_items_checked_total lru_crawler_moves_to_warm_total malloced_bytes
  slab_current_items slab_items_age_seconds slab_items_crawler_reclaimed_total slab_items_evicted_total
  slab_items_evicted_nonzero_total slab_items_evicted_time_seconds slab_items_evicted_unfetched_total
  slab_items_expired_unfetched_total slab_items_outofmemory_total slab_items_reclaimed_total slab_items_moves_to_warm
  slab_hot_items slab_warm_items slab_hot_age_seconds slab_warm_age_seconds slab_lru_hits_total slab_chunk_size_bytes
  slab_chunks_per_page slab_current_pages slab_current_chunks slab_chunks_used slab_chunks_free slab_mem_requested_bytes
  slab_commands_total accepting_connections
`.trim().split(/\s+/).map((name) => `memcached_${name}`);

/** The labels of memcached_exporter's commands_total. */
const COMMANDS = ["get", "delete", "incr", "decr", "cas", "touch"].flatMap((command) =>
  ["hit", "miss"].map((status) => `${command} ${status}`)
).concat("cas badval", "flush hit", "set hit");

async function use(client: Client): Promise<void> {
  await client.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n", "STORED\r\nSTORED\r\n");
  await client.ask("get a b c\r\n", "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n");
  await client.ask("cas a 0 0 1 1\r\n3\r\ncas c 0 0 1 1\r\n3\r\n", "EXISTS\r\nNOT_FOUND\r\n");
  await client.ask("lock a\r\nunlock a\r\n", "OK\r\nOK\r\n");
}

testTransports(
  "metrics are the statistics, under the exporter's names or ours",
  async (start, io) => {
    await using server = await start({ args: ["--metrics", "0"], permissions: permissions(io) });
    const origin = await originOf(server);
    using client = await server.connect();
    await use(client);
    const page = await (await fetch(`${origin}/metrics`)).text();
    await promtoolCheck(page);
    const families = parseExposition(page);
    const missing = EXPORTED.filter((name) => !families.has(name));
    assertEquals(missing, []);
    const unknown = [...families.keys()].filter((name) =>
      name.startsWith("memcached_") && !EXPORTED.includes(name)
    );
    assertEquals(unknown, []);
    const commands = [...families.get("memcached_commands_total")!.samples.keys()].map((key) =>
      /command="(\w+)",status="(\w+)"/.exec(key)!.slice(1).join(" ")
    );
    assertEquals(commands.toSorted(), COMMANDS.toSorted());

    const classId = await client.stats("items").then((text) => /items:(\d+):/.exec(text)![1]);
    const slab = `slab="${classId}"`;
    const values: Readonly<Record<string, number>> = {
      "memcached_up": 1,
      "memcached_current_items": 2,
      "memcached_items_total": 2,
      "memcached_limit_bytes": 64 * 1024 * 1024,
      "memcached_max_connections": 1024,
      "memcached_accepting_connections": 1,
      'memcached_commands_total{command="get",status="hit"}': 2,
      'memcached_commands_total{command="get",status="miss"}': 1,
      'memcached_commands_total{command="set",status="hit"}': 2,
      'memcached_commands_total{command="cas",status="badval"}': 1,
      'memcached_commands_total{command="cas",status="miss"}': 1,
      [`memcached_slab_commands_total{${slab},command="get",status="hit"}`]: 2,
      // With the cas that missed, as in the exporter: memcached does not count those for each class.
      [`memcached_slab_commands_total{${slab},command="set",status="hit"}`]: 3,
      [`memcached_slab_current_items{${slab}}`]: 2,
      [`memcached_slab_current_pages{${slab}}`]: 1,
      'leased_requests_total{protocol="text",command="lock"}': 1,
      'leased_requests_total{protocol="binary",command="Get"}': 0,
      "leased_lock_ok_total": 1,
      "leased_lock_curr": 0,
      "leased_threads": 2,
      "leased_page_bytes": 65536,
    };
    for (const [key, value] of Object.entries(values)) {
      assertEquals(
        sample(families, key),
        value,
        key,
      );
    }
    const inThreads = [0, 1].map((thread) =>
      sample(families, `leased_thread_commands_total{thread="${thread}"}`)!
    );
    assert(inThreads[0]! + inThreads[1]! >= 7, `${inThreads}`);
    assert(sample(families, 'leased_thread_batches_total{thread="maintenance"}') !== undefined);

    await client.ask("stats reset\r\n", "RESET\r\n");
    const after = await read(origin);
    assertEquals(sample(after, 'memcached_commands_total{command="get",status="hit"}'), 0);
    assertEquals(sample(after, "memcached_current_items"), 2);
    await server.stop();
  },
);

testTransports("/health is 503 while the server drains", async (start, io) => {
  const args = ["--metrics", "0", "-I", "8m"];
  await using server = await start({ args, permissions: permissions(io) });
  const origin = await originOf(server);
  const health = async (): Promise<number> => {
    const reply = await fetch(`${origin}/health`);
    await reply.body?.cancel();
    return reply.status;
  };
  assertEquals(await health(), 200);
  // A client that does not read its replies delays the end.
  using client = await server.connect();
  const length = 8_000_000;
  await client.ask(`set big 0 0 ${length}\r\n${"x".repeat(length)}\r\n`, "STORED\r\n");
  await client.send("get big big big\r\n");
  await client.take(1);
  server.signal("SIGTERM");
  await until(async () => await health() === 503);
  client[Symbol.dispose]();
  assertEquals((await server.ended()).code, 0);
});

Deno.test("without --metrics there is no such port, and no permission is needed for one", async () => {
  await using server = await ServerProcess.start();
  assert(!server.lines.some((line) => line.includes("metrics")));
  await server.stop();
});

testTransports("a port that is taken is named; so is the missing permission", async (start, io) => {
  await using server = await start();
  const address = `127.0.0.1:${server.port}`;
  const args = ["--io", io, "-p", "-1", "--metrics", address];
  const taken = await runToEnd({ args, permissions: permissions(io) });
  assertEquals(taken.code, 71);
  assertStringIncludes(taken.stderr, `cannot listen on ${address}`);
  assertStringIncludes(taken.stderr, "choose another with --admin");
  const least = leastPermissions(io).filter((flag) => !flag.startsWith("--allow-net"));
  const denied = await runToEnd({ args, permissions: least });
  assertEquals(denied.code, 77);
  assertStringIncludes(denied.stderr, `not permitted to listen on ${address}: add --allow-net=`);
  await server.stop();
});

Deno.test("metrics beyond this host are a warning, and refused under --require-auth", async () => {
  const args = ["--metrics", "*:0"];
  await using server = await ServerProcess.start({
    args,
    permissions: [...leastPermissions("native"), "--allow-net"],
  });
  const line = await server.line("can read the statistics");
  assertStringIncludes(line, "warning: no authentication: any host that can reach 0.0.0.0:");
  await server.stop();
  const { code, stderr } = await runToEnd({
    args: ["-p", "-1", "--require-auth", "--metrics", "*:9150"],
  });
  assertEquals(code, 64);
  assertStringIncludes(stderr, "metrics have no authentication: leave --admin out");
});
