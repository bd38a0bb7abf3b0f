import { assert, assertEquals, assertGreater, assertMatch } from "@std/assert";
import { opcodeOf, packetParts } from "../../support/sessions/binary_text.ts";
import { type Client, IO_WAYS, ServerProcess } from "../../support/servers/server_process.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { closeLibc, type Victim, WAYS } from "../../support/servers/victims.ts";

// Clients that hold locks, or wait for some, are ended in every way while others go on. No lock of
// a dead client may survive, and none of a living one may be lost.

/** Number of clients that are ended, over each transport. */
const KILLS = 500;
/** Number of clients that are ended at the same time. */
const VICTIMS = 10;
const LIVING = 20;
const LOADS = 4;
/** A client that waits as long as this waits for a lock that nobody will free. */
const WAIT_MS = 60_000;
const LARGE = "x".repeat(400_000);

/**
 * The request that a client is in the middle of when it ends, after it has locked its key. `living` is a key that stays
 * locked.
 */
const SITUATIONS: readonly ((key: string, living: string) => string)[] = [
  () => "",
  (key) => `get ${key}\r\nset ${key} 0 0 1\r\n2\r\n`,
  (key) => `lock ${key}:b\r\nlock ${key}:c\r\nlock ${key}:d\r\n`,
  (_key, living) => `lock ${living} ${WAIT_MS}\r\n`,
  (key, living) => `lock ${key}:b\r\nlock ${living} ${WAIT_MS}\r\nunlock ${key}\r\n`,
  (key) => `set ${key} 0 0 100000\r\n${"half".repeat(300)}`,
  (key) => `append ${key} 0 0 10\r\nhal`,
  // Replies that nobody reads: closing resets the connection.
  () => "get large\r\n".repeat(10),
  (key) => `lock ${key}:b\r\nget large\r\nunlock`,
  (key) => `lock ${key}:b\r\nkeys\r\nlock list\r\n`,
];
const BINARY_SHARE = 0.2;

async function storeAll(client: Client, keys: readonly string[]): Promise<void> {
  for (const key of keys) await client.ask(`set ${key} 0 0 1\r\n1\r\n`, "STORED\r\n");
}

/** Reads, writes and locks keys of its own until told to stop. Every reply must be right. */
async function load(
  client: Client,
  name: string,
  random: () => number,
  stop: () => boolean,
): Promise<void> {
  await storeAll(client, [name]);
  while (!stop()) {
    const value = "v".repeat(1 + Math.floor(random() * 5000));
    await client.ask(
      `lock ${name}\r\nset ${name} 0 0 ${value.length}\r\n${value}\r\nget ${name}\r\n`,
      `OK\r\nSTORED\r\nVALUE ${name} 0 ${value.length}\r\n${value}\r\nEND\r\n`,
    );
    await client.ask(`set living${Math.floor(random() * LIVING)} 0 0 1\r\n9\r\n`, "LOCKED\r\n");
    await client.ask(`unlock ${name}\r\n`, "OK\r\n");
  }
}

/** A binary client with the lock. There is no waiting in this protocol, so it may have to ask again. */
async function lockInBinary(way: string, port: number, key: string): Promise<Victim> {
  // A value that ends a line comes last, whatever comes before.
  const request = [
    ...packetParts({ opcode: opcodeOf("LockQ"), key }),
    ...packetParts({ opcode: opcodeOf("LaGKQ"), key: `${key}:b` }),
    ...packetParts({ opcode: opcodeOf("Get"), key: "line" }),
  ].join("");
  for (;;) {
    const victim = await WAYS[way]!(port, request);
    if (!victim.firstLine.includes("Locked")) return victim;
    await victim.end();
  }
}

/** Ends `count` clients, one after the other. Each must get the lock of the one before. */
async function endClients(
  port: number,
  key: string,
  count: number,
  random: () => number,
): Promise<void> {
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)]!;
  let fence = 0;
  for (let number = 0; number < count; number++) {
    const way = pick(Object.keys(WAYS));
    if (random() < BINARY_SHARE) {
      await (await lockInBinary(way, port, key)).end();
      continue;
    }
    const situation = pick(SITUATIONS)(key, `living${Math.floor(random() * LIVING)}`);
    const request = `lock ${key} ${WAIT_MS} fence\r\n${situation}`;
    const victim = await WAYS[way]!(port, request);
    assertMatch(victim.firstLine, /^OK \d+\r\n$/, `after ${way}`);
    const next = Number(victim.firstLine.slice(3));
    assertGreater(next, fence, "fencing numbers grow");
    fence = next;
    await victim.end();
  }
}

async function battle(server: ServerProcess, seed: number): Promise<void> {
  const random = randomFrom(seed);
  const dying = Array.from({ length: VICTIMS }, (_, index) => `dying${index}`);
  const living = Array.from({ length: LIVING }, (_, index) => `living${index}`);
  using watcher = await server.connect();
  await storeAll(watcher, dying.flatMap((key) => [key, `${key}:b`, `${key}:c`, `${key}:d`]));
  await storeAll(watcher, living);
  await watcher.ask("set line 0 0 2\r\n\r\n\r\n", "STORED\r\n");
  await watcher.ask(`set large 0 0 ${LARGE.length}\r\n${LARGE}\r\n`, "STORED\r\n");
  const holders = await Promise.all(living.map(() => server.connect()));
  const fences: string[] = [];
  for (const [index, holder] of holders.entries()) {
    await holder.send(`lock ${living[index]} fence\r\n`);
    fences.push(await holder.until("\r\n"));
  }
  const loads = await Promise.all(Array.from({ length: LOADS }, () => server.connect()));
  let over = false;
  const loading = loads.map((client, index) => load(client, `load${index}`, random, () => over));
  const share = Math.ceil(KILLS / VICTIMS);
  try {
    await Promise.all(dying.map((key) => endClients(server.port, key, share, random)));
  } finally {
    over = true;
    await Promise.all(loading);
  }
  while (await watcher.stat("lock_curr") !== String(LIVING));
  assertEquals(await watcher.stat("lock_waiting"), "0");
  await watcher.send("lock list\r\n");
  const list = await watcher.until("END\r\n");
  const listed = list.split("\r\n").map((line) => /^LOCK (\S+) .*fence=(\d+)$/.exec(line));
  assertEquals(
    listed.filter((match) => match !== null).map(([, key, fence]) => `${key} OK ${fence}\r\n`)
      .sort(),
    living.map((key, index) => `${key} ${fences[index]}`).sort(),
  );
  for (const [index, holder] of holders.entries()) {
    await holder.ask(`lock ${living[index]} fence\r\n`, fences[index]!);
    await holder.ask(`set ${living[index]} 0 0 1\r\n2\r\n`, "STORED\r\n");
  }
  for (const client of [...holders, ...loads]) client[Symbol.dispose]();
  while (await watcher.stat("curr_connections") !== "1");
  assertEquals(await watcher.stat("lock_curr"), "0");
  assert(Number(await watcher.stat("lock_freed_by_close")) >= KILLS);
}

for (const { name: way, io, ioUring = "auto" } of IO_WAYS) {
  Deno.test(`${way}: ${KILLS} clients with locks end in every way, and no other client loses one`, async () => {
    try {
      await withSeed(drawSeed(), async (seed) => {
        await using server = await ServerProcess.start({ io, ioUring, args: ["-c", "200"] });
        await battle(server, seed);
        await server.stop();
      });
    } finally {
      closeLibc();
    }
  });
}
