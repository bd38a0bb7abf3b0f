import { assert, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import {
  type Client,
  type ServerProcess,
  testIoWays as test,
  until,
} from "../../support/servers/server_process.ts";

const HOSTILE = 150;
const ANNOUNCED = 1_000_000;
const ARRIVED = 200_000;
/** A quarter of the memory. */
const SHARE_BYTES_MAX = 512 * 1024;
const LONG = "h".repeat(100_000);
const OUT_OF_MEMORY = "SERVER_ERROR out of memory storing object\r\n";
const ROUNDS = 30;

/** Begins a value, and sends a part of it. */
async function announce(server: ServerProcess, index: number): Promise<Client> {
  const client = await server.connect();
  await client.send(`set hostile${index} 0 0 ${ANNOUNCED}\r\n${"v".repeat(ARRIVED)}`);
  return client;
}

/** Stores and reads a long value and a short one. */
async function storeAndRead(client: Client, round: number): Promise<void> {
  await client.ask(`set long 1 0 ${LONG.length}\r\n${LONG}\r\n`, "STORED\r\n");
  await client.ask("get long\r\n", `VALUE long 1 ${LONG.length}\r\n${LONG}\r\nEND\r\n`);
  await storeAndReadShort(client, round);
}

async function storeAndReadShort(client: Client, round: number): Promise<void> {
  const value = `${round}`.padStart(1 + round * 100 % 4000, "v");
  await client.ask(`set short${round} 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  await client.ask(
    `get short${round}\r\n`,
    `VALUE short${round} 0 ${value.length}\r\n${value}\r\nEND\r\n`,
  );
}

test("150 clients that send parts of long values do not keep another one from storing", async (start) => {
  await using server = await start({ args: ["-m", "2", "-I", "1m", "-t", "2", "-c", "400"] });
  using honest = await server.connect();
  const begun = async (): Promise<number> =>
    Number(await honest.stat("values_arriving")) + Number(await honest.stat("values_dropped"));
  const first = await announce(server, 0);
  await until(async () => await begun() === 1);
  const hostile = [first];
  for (let index = 1; index < HOSTILE; index++) hostile.push(await announce(server, index));
  await until(async () => await begun() === HOSTILE);
  // They go on, a byte at a time: the honest client's values are newer, and arrive faster.
  for (let round = 0; round < ROUNDS; round++) {
    await Promise.all(hostile.map((client) => client.send("v")));
    await storeAndRead(honest, round);
  }
  assertGreater(Number(await honest.stat("values_dropped")), HOSTILE / 2);
  const bytes = Number(await honest.stat("values_arriving_bytes"));
  assert(bytes <= SHARE_BYTES_MAX, `${bytes} bytes`);
  // A client that was told of its dropped value has the rest of it swallowed, and is served on.
  await first.expect(OUT_OF_MEMORY);
  await first.send(`${"v".repeat(ANNOUNCED - ARRIVED - ROUNDS)}\r\n`);
  await first.ping();
  // While ever new ones begin, short values are stored: they need no memory before they are whole.
  const beginning = (async () => {
    for (let index = 0; index < HOSTILE; index++) hostile.push(await announce(server, index));
  })();
  for (let round = 0; round < ROUNDS; round++) await storeAndReadShort(honest, round);
  await beginning;
  for (const client of hostile) client[Symbol.dispose]();
  const { stderr } = await server.stop();
  assertStringIncludes(stderr, "shutting down");
});

test("bytes_read counts a long value once, also if its end comes alone", async (start) => {
  await using server = await start({ args: ["-t", "1"] });
  using watcher = await server.connect();
  using client = await server.connect();
  let asked = 0;
  const bytesRead = async (): Promise<number> => {
    asked += "stats\r\n".length;
    return Number(await watcher.stat("bytes_read")) - asked;
  };
  const before = await bytesRead();
  const request = `set k 0 0 ${LONG.length}\r\n${LONG}`;
  await client.send(request);
  await until(async () => await bytesRead() === before + request.length);
  await client.ask("\r\n", "STORED\r\n");
  assertEquals(await bytesRead(), before + request.length + "\r\n".length);
});
