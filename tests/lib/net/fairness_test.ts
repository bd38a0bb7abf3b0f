import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import {
  Client,
  type ServerProcess,
  testIoWays as test,
} from "../../support/servers/server_process.ts";

// Work is counted, not time: how many requests of a costly packet were executed when something else had happened.

const ITEMS = 20_000;
const VALUE_LENGTH = 40_000;
/** About as many as fit one read. Each walks all items. */
const REQUESTS = 1200;
/** Slices between two requests of a quiet client; Deno's default would make it 61. */
const SLICES_MAX = 20;
const ROUNDS = 20;

async function filled(server: ServerProcess): Promise<void> {
  using client = await server.connect();
  for (let at = 0; at < ITEMS; at += 1000) {
    let text = "";
    for (let index = at; index < at + 1000; index++) {
      text += `set key:${index} 0 0 1 noreply\r\nx\r\n`;
    }
    await client.send(text);
  }
  await client.ping();
}

/** How often a text command was executed. */
async function executed(client: Client, command: string): Promise<number> {
  return Number(await client.stat(`text:${command}`, "ops"));
}

for (const request of ["keys nope", "stats sizes"]) {
  test(`a client is served while ${request} is executed again and again for another`, async (start) => {
    await using server = await start({ args: ["-t", "1"] });
    await filled(server);
    using costly = await server.connect();
    using quiet = await server.connect();
    const command = request.split(" ")[0]!;
    const before = await executed(quiet, command);
    await costly.send(`${request}\r\n`.repeat(REQUESTS));
    for (let round = 0; round < 3; round++) await quiet.ping();
    // The packet has been begun at the latest when the second reply has come, and is far from its end.
    const count = await executed(quiet, command) - before;
    assertLess(count, REQUESTS);
  });
}

test("a quiet client waits for a few slices of busy ones, not for many", async (start) => {
  await using server = await start({ args: ["-t", "1"], permissions: ["--allow-all"] });
  await filled(server);
  using quiet = await server.connect();
  const busy = await Promise.all(Array.from({ length: 8 }, () => server.connect()));
  for (const client of busy) await client.send("keys nope\r\n".repeat(REQUESTS));
  const yields = async (): Promise<number> => Number(await quiet.stat("conn_yields"));
  while (await yields() === 0);
  // The least of some rounds: in the others this process itself may have been slow.
  let least = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    least = Math.min(least, -(await yields()) + await yields());
  }
  assertLess(least, SLICES_MAX);
  for (const client of busy) client[Symbol.dispose]();
});

test("what a closed connection has sent is dropped at the end of its slice", async (start) => {
  await using server = await start({ args: ["-t", "1"] });
  await filled(server);
  using quiet = await server.connect();
  const costly = await server.connect();
  await costly.send("keys nope\r\n".repeat(REQUESTS));
  while (await executed(quiet, "keys") === 0);
  costly[Symbol.dispose]();
  while (await quiet.stat("curr_connections") !== "1");
  const count = await executed(quiet, "keys");
  assertLess(count, REQUESTS);
  assertGreater(Number(await quiet.stat("conn_yields")), 0);
});

test("SIGTERM ends a server that has much to do for a connection that is gone", async (start) => {
  await using server = await start({ args: ["-t", "1"] });
  await filled(server);
  const costly = await server.connect();
  await costly.send("keys nope\r\n".repeat(REQUESTS));
  costly[Symbol.dispose]();
  await server.stop();
});

test("lists are refused over UDP, and the reply to one datagram is bounded", async (start) => {
  await using server = await start({
    args: ["-U", "-1", "-t", "1", "--udp-reply-max", "50000"],
    permissions: ["--allow-all"],
  });
  await filled(server);
  using client = await server.connect();
  await client.ask(`set long 0 0 ${VALUE_LENGTH}\r\n${"v".repeat(VALUE_LENGTH)}\r\n`, "STORED\r\n");
  const port = Number(/udp 127\.0\.0\.1:(\d+)/.exec(server.lines[0]!)![1]);
  const socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const ask = async (line: string): Promise<string> => {
    const datagram = new TextEncoder().encode(`\0\x07\0\0\0\x01\0\0${line}\r\n`);
    await socket.send(datagram, { transport: "udp", hostname: "127.0.0.1", port });
    const [reply] = await socket.receive();
    return new TextDecoder().decode(reply.subarray(8));
  };
  const lists = ["keys", "lru_crawler metadump all", "lru_crawler mgdump all", "lock list"];
  for (const line of [...lists, "lease list"]) {
    assertEquals(await ask(line), "SERVER_ERROR not available over UDP\r\n", line);
  }
  assert((await ask("get long")).startsWith(`VALUE long 0 ${VALUE_LENGTH}\r\n`));
  // The rest of that reply, then nothing for twice the value, then a short one.
  for (let left = Math.ceil(VALUE_LENGTH / 1392) - 1; left >= 0; left--) {
    if ((await socket.receive())[0].length < 1400) break;
  }
  const request = new TextEncoder().encode("\0\x08\0\0\0\x01\0\0get long\r\nget long\r\n");
  await socket.send(request, { transport: "udp", hostname: "127.0.0.1", port });
  assertEquals(await ask("get nothing"), "END\r\n");
  socket.close();
});
