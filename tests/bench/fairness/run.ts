/**
 * How long a client waits beside another one that sends one read full of a costly command, for every command of both
 * protocols, among a million items; and beside 50 clients that pipeline deeply.
 */
import { type CostlyPacket, costlyPackets, itemKey } from "../../support/load/costly_requests.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { askAll, discard, isBusy, roundTrip, send, startBusyClient } from "./clients.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, pinGenerator, say, startLeased, startMemcached } from "../processes.ts";
import { median } from "../rows.ts";

const LEASED_OPTIONS = [
  ...["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", "--allow-token-drop"],
];
const VALUE_BYTES = 32;
/** Commands that end the server or the measurement itself. */
const ENDING = /^(?:shutdown|flush_all|binary Flush|quarantine|cache_memlimit)/;
/** Commands that memcached does not know, or that would leave it without answers. */
const UNKNOWN_THERE =
  /^(?:getss|deletess|lease|token|lock|unlock|keys|stats (?:classes|ops|threads)|binary (?:Lock|Unlock|LaG|RaU|Keys|GetSS|DeleteSS|Token))/;
/** The costly connection is closed after this time: its requests may take minutes. */
const BESIDE_MS = 300;

/** Deep pipelines: what each of many clients sends again and again. */
const DEEP: readonly (readonly [name: string, request: string])[] = [
  ["mg, 8000 deep", Array.from({ length: 8000 }, (_, at) => `mg ${itemKey(at)} v\r\n`).join("")],
];
const DEEP_CLIENTS = 50;
/** Samples are taken at fixed times, so that a long wait does not stand for many. */
const DEEP_SAMPLES = 600;
const DEEP_SAMPLE_MS = 5;
const DEEP_MS_MAX = 8000;

/** Locks, leases and update tokens beside the items: as many as the default limits allow, or nearly so. */
const LOCKERS = 32;
const LOCKS_PER_CONNECTION = 1000;
const LEASES = 50_000;
const TOKENS = 9000;
/** A key with many update tokens, which `token drop` ends. */
const HOT_KEY = "hot";
const REQUESTS_PER_WRITE = 500;

export async function main(args: readonly string[]): Promise<void> {
  const { items, rounds, io, threads, only, memcached, port } = readOptions(args, {
    items: 1_000_000,
    rounds: 3,
    io: "native",
    threads: 1,
    only: "",
    memcached: "/usr/bin/memcached",
    port: 21330,
  }, { io: TRANSPORTS });
  await pinGenerator();
  const servers: BenchServer[] = [];
  try {
    servers.push(
      await startLeased(port, threads, io, LEASED_OPTIONS),
    );
    servers.push(await startMemcached(memcached, port + 1, threads));
    for (const server of servers) await fill(server.port, items);
    const lockers = await claim(port);
    await compareCommands(servers, new RegExp(only), rounds);
    await comparePipelines(servers, new RegExp(only));
    for (const locker of lockers) locker.close();
  } finally {
    for (const server of servers) await server.stop();
  }
}

async function compareCommands(
  servers: readonly BenchServer[],
  only: RegExp,
  rounds: number,
): Promise<void> {
  say(`longest wait of a get, in ms, beside one packet: ${servers.map(({ name }) => name)}`);
  const [ours, theirs] = servers as [BenchServer, BenchServer];
  let longest = 0;
  for (const packet of costlyPackets()) {
    if (ENDING.test(packet.name) || !only.test(packet.name)) continue;
    const own = await leastStall(ours.port, packet, rounds);
    longest = Math.max(longest, own);
    const other = UNKNOWN_THERE.test(packet.name)
      ? "-"
      : (await leastStall(theirs.port, packet, rounds)).toFixed(1);
    say(`  ${packet.name.padEnd(40)} ${own.toFixed(1).padStart(7)} ${other.padStart(7)}`);
  }
  say(`  longest of all: ${longest.toFixed(1)}`);
}

async function comparePipelines(servers: readonly BenchServer[], only: RegExp): Promise<void> {
  say(`a get beside ${DEEP_CLIENTS} clients, in ms: p50, p99 and the longest`);
  for (const [name, request] of DEEP) {
    if (!only.test(name)) continue;
    for (const server of servers) {
      const waits = await waitsBeside(server.port, request);
      const sorted = waits.toSorted((a, b) => a - b);
      const p99 = sorted[Math.floor(sorted.length * 0.99)]!;
      say(
        `  ${name.padEnd(20)} ${server.name.padEnd(22)} ${median(waits).toFixed(2).padStart(8)} ` +
          `${p99.toFixed(2).padStart(8)} ${sorted.at(-1)!.toFixed(2).padStart(8)}`,
      );
    }
  }
}

/** Stores the items, over one connection. */
async function fill(port: number, items: number): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const value = "v".repeat(VALUE_BYTES);
  for (let at = 0; at < items; at += REQUESTS_PER_WRITE) {
    let text = "";
    for (let index = at; index < at + REQUESTS_PER_WRITE; index++) {
      text += `set ${itemKey(index)} 0 0 ${VALUE_BYTES} noreply\r\n${value}\r\n`;
    }
    await send(connection, bytesOf(text));
  }
  await roundTrip(connection);
}

/** Takes locks, leases and update tokens. Returns the connections that hold the locks. */
async function claim(port: number): Promise<Deno.Conn[]> {
  const lockers: Deno.Conn[] = [];
  for (let locker = 0; locker < LOCKERS; locker++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    lockers.push(connection);
    const first = locker * LOCKS_PER_CONNECTION;
    await askEach(connection, LOCKS_PER_CONNECTION, (index) => `lock ${itemKey(first + index)}`);
  }
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await askEach(connection, LEASES, (index) => `getss 10000 lease:${index}`);
  await fillTokens(port);
  return lockers;
}

/** Takes as many update tokens as fit, half of them on one key. */
async function fillTokens(port: number): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await askEach(
    connection,
    TOKENS,
    (index) => `token get ${index % 2 === 0 ? HOT_KEY : `token:${index}`}`,
  );
}

/** Sends `count` requests, some at a time, and waits for the replies. */
async function askEach(
  connection: Deno.Conn,
  count: number,
  request: (index: number) => string,
): Promise<void> {
  for (let at = 0; at < count; at += REQUESTS_PER_WRITE) {
    const size = Math.min(REQUESTS_PER_WRITE, count - at);
    await askAll(connection, Array.from({ length: size }, (_, index) => request(at + index)));
  }
}

/** The least of the longest waits of some rounds: a stall that the command causes is in every round. */
async function leastStall(port: number, packet: CostlyPacket, rounds: number): Promise<number> {
  let least = Infinity;
  for (let round = 0; round < rounds; round++) {
    if (/^token drop/.test(packet.name)) await fillTokens(port);
    least = Math.min(least, await longestWait(port, packet));
  }
  return least;
}

/** The longest wait of a client while another one's packet is served, in milliseconds. */
async function longestWait(port: number, packet: CostlyPacket): Promise<number> {
  using quiet = await Deno.connect({ hostname: "127.0.0.1", port });
  const costly = await Deno.connect({ hostname: "127.0.0.1", port });
  await roundTrip(quiet);
  let isOver = false;
  const reading = discard(costly).finally(() => isOver = true);
  const end = packet.isBinary ? "" : "quit\r\n";
  const sending = send(costly, bytesOf(packet.text + end)).catch(() => {});
  const startMs = performance.now();
  let longest = 0;
  // Until the costly connection is answered and closed, or its time is over.
  while (!isOver && performance.now() - startMs < BESIDE_MS) {
    longest = Math.max(longest, await roundTrip(quiet));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  costly.close();
  await Promise.all([reading, sending]);
  longest = Math.max(longest, await roundTrip(quiet));
  return longest;
}

/** The waits of a quiet client beside many that send `request` again and again. */
async function waitsBeside(port: number, request: string): Promise<number[]> {
  const busy = await Promise.all(
    Array.from({ length: DEEP_CLIENTS }, () => startBusyClient(port, request)),
  );
  await Promise.all(busy.map(isBusy));
  using quiet = await Deno.connect({ hostname: "127.0.0.1", port });
  const waits: number[] = [];
  const endMs = performance.now() + DEEP_MS_MAX;
  for (let sample = 0; sample < DEEP_SAMPLES && performance.now() < endMs; sample++) {
    const pause = new Promise((resolve) => setTimeout(resolve, DEEP_SAMPLE_MS));
    waits.push(await roundTrip(quiet));
    await pause;
  }
  for (const worker of busy) worker.kill("SIGKILL");
  for (const worker of busy) await worker.status;
  return waits;
}
