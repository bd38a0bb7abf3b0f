import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  acquire,
  COUNTER_HEADER_LENGTH,
  counterReply,
  counterStats,
  dump,
  getCounter,
  noop,
  packetLength,
  readCounterStats,
  release,
  u32,
} from "../../support/sessions/counter_packets.ts";
import {
  type Client,
  leastPermissions,
  runToEnd,
  ServerProcess,
  TRANSPORTS,
} from "../../support/servers/server_process.ts";

async function startCounters(
  io: "portable" | "native",
  ...args: readonly string[]
): Promise<ServerProcess> {
  return await ServerProcess.start({
    io,
    args: ["--counter-port", "-1", ...args],
    permissions: leastPermissions(io),
  });
}

/** One figure of Stats. */
async function figure(client: Client, name: string): Promise<number> {
  await client.send(counterStats());
  const header = await client.take(COUNTER_HEADER_LENGTH);
  const body = await client.take(packetLength(header) - COUNTER_HEADER_LENGTH);
  return Number(readCounterStats(body).get(name));
}

/** Waits until a counter's sum is so much. Its connections may end a little later than their clients. */
async function untilSum(client: Client, name: string, sum: number): Promise<void> {
  for (;;) {
    await client.send(getCounter(name));
    if (await client.take(COUNTER_HEADER_LENGTH + 4) === counterReply(0x01, 0, u32(sum))) return;
  }
}

for (const io of TRANSPORTS) {
  Deno.test(`${io}: counters are the server's, and come back when a connection ends in any way`, async () => {
    await using server = await startCounters(io);
    using watcher = await server.connect(server.counterPort);
    const max = 0xffffffff;
    const ends: readonly ((client: Client) => void | Promise<void>)[] = [
      (client) => client[Symbol.dispose](),
      (client) => client.socket.closeWrite(),
      // In the middle of a request.
      async (client) => {
        await client.send(acquire(1, 1, "other").slice(0, 15));
        client[Symbol.dispose]();
      },
      // With replies that are not read: the connection is reset.
      async (client) => {
        await client.send(dump().repeat(1000));
        client[Symbol.dispose]();
      },
      // This closes the connection on the server's side.
      (client) => client.send(`\x90\0\0\0${u32(max)}${u32(0)}`),
    ];
    for (const end of ends) {
      using holder = await server.connect(server.counterPort);
      await holder.ask(acquire(max - 1, max, "n"), counterReply(0x02, 0, u32(max - 1)));
      await watcher.ask(acquire(1, max, "n"), counterReply(0x02, 0, u32(1)));
      await watcher.ask(
        acquire(1, max, "n"),
        counterReply(0x02, 0x21, "Resource not available"),
      );
      await end(holder);
      await untilSum(watcher, "n", 1);
      await watcher.ask(release(1, "n"), counterReply(0x03));
    }
    assertEquals(await figure(watcher, "curr_connections"), 1);
    assertEquals(await figure(watcher, "total_connections"), 1 + ends.length);
    using cache = await server.connect();
    await cache.ping();
    await server.stop();
    assertEquals(await watcher.rest(), "");
  });

  Deno.test(`${io}: a client that does not read its Dump delays no other client`, async () => {
    await using server = await startCounters(io, "--counter-memory", "64");
    using greedy = await server.connect(server.counterPort);
    const name = "n".repeat(60_000);
    for (let index = 0; index < 300; index++) {
      await greedy.ask(acquire(1, 1, name + index), counterReply(0x02, 0, u32(1)));
    }
    await greedy.send(dump());
    using other = await server.connect(server.counterPort);
    for (let round = 0; round < 100; round++) await other.ask(noop(), counterReply(0x00));
    assertEquals(await figure(other, "objects"), 300);
  });

  Deno.test(`${io}: a client that never reads its Dump is dropped`, async () => {
    await using server = await startCounters(io, "-v", "-o", "send_timeout=1");
    using client = await server.connect(server.counterPort);
    const name = "n".repeat(60_000);
    await client.ask(acquire(1, 1, name), counterReply(0x02, 0, u32(1)));
    const sending = client.send(dump().repeat(1000)).catch(() => {});
    await server.line("accepted no byte of its replies");
    await sending;
    await server.stop();
  });

  Deno.test(`${io}: idle counters are dropped once an interval, memory and connections are limited`, async () => {
    await using server = await startCounters(
      io,
      ...["--counter-interval", "1", "--counter-memory", "1", "--counter-conn-limit", "2", "-v"],
      ...["-c", "1"],
    );
    using client = await server.connect(server.counterPort);
    await client.ask(
      acquire(1, 1, "a") + release(1, "a"),
      counterReply(0x02, 0, u32(1)) + counterReply(0x03),
    );
    while (await figure(client, "objects") > 0);
    await client.ask(getCounter("a"), counterReply(0x01, 0x01, "Not found"));
    const name = "n".repeat(60_000);
    for (let index = 0; index < 17; index++) {
      await client.ask(acquire(1, 1, name + index), counterReply(0x02, 0, u32(1)));
    }
    await client.ask(acquire(1, 1, name), counterReply(0x02, 0x82, "Out of memory"));
    using second = await server.connect(server.counterPort);
    await second.ask(noop(), counterReply(0x00));
    using third = await server.connect(server.counterPort);
    assertEquals(await third.rest(), "");
    await server.line(/tcp:127\.0\.0\.1:\d+: .*2 connections are open \(--counter-conn-limit\)/);
    await server.stop();
  });
}

Deno.test("without --counter-port there are no counters; a port that is taken is named", async () => {
  await using server = await ServerProcess.start();
  assertEquals(server.lines[0]!.includes("counters"), false);
  const args = ["-p", "-1", "--counter-port", `${server.port}`];
  const { code, stderr } = await runToEnd({ args });
  assertEquals(code, 71, stderr);
  assertStringIncludes(stderr, `cannot listen on 127.0.0.1:${server.port}: `);
  assertStringIncludes(stderr, "choose another with --counter-port");
  const permissions = leastPermissions("portable").filter((flag) => !flag.includes("-net"));
  const missing = await runToEnd({ args: ["--io", "portable", ...args], permissions });
  assertEquals(missing.code, 77, missing.stderr);
  assertStringIncludes(missing.stderr, `not permitted to listen on 127.0.0.1:${server.port}`);
});
