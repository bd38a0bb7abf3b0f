/**
 * How long a client waits beside another one that sends one read full of a costly command, for every command of both
 * protocols, among a million items; and beside 50 clients that pipeline deeply. On a busy machine a wait is mostly the
 * time of other programs. The server's own CPU time during a wait is not.
 */
import { type CostlyPacket, costlyPackets, itemKey } from "../support/load/costly_requests.ts";
import { Client } from "../support/servers/server_process.ts";
import { bytesOf } from "../support/sessions/side.ts";
import { ClientThreads, fillNumbers } from "./base/clients.ts";
import type { Batch } from "./base/generator.ts";
import { fixed, pause, Table, waits } from "./base/measure.ts";
import { readOptions } from "../support/options.ts";
import { cpuNanoseconds } from "./base/processes.ts";
import {
  type BenchServer,
  connectWhenOpen,
  DEBIAN_MEMCACHED,
  IO,
  Servers,
} from "./base/servers.ts";

const LEASED_OPTIONS = [
  ...["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", "--allow-token-drop"],
];
const VALUE = "v".repeat(32);
/** Commands that end the server or the measurement itself. */
const ENDING = /^(?:shutdown|flush_all|binary Flush|quarantine|cache_memlimit)/;
/** Commands that memcached does not know, or that would leave it without answers. */
const UNKNOWN_THERE =
  /^(?:getss|deletess|lease|token|lock|unlock|keys|stats (?:classes|ops|threads)|binary (?:Lock|Unlock|LaG|RaU|Keys|GetSS|DeleteSS|Token))/;
/** The costly connection is closed after this time: its requests may take minutes. */
const BESIDE_MS = 300;

/** A deep pipeline: what each of many clients sends again and again. */
const DEEP = 8000;
const DEEP_NAME = `mg, ${DEEP} deep`;
const DEEP_CLIENTS = 50;
/** Samples are taken at fixed times, so that a long wait does not stand for many. */
const DEEP_SAMPLE_MS = 5;
const DEEP_SEC = 4;

/** Locks, leases and update tokens beside the items: as many as the default limits allow, or nearly so. */
const LOCKERS = 32;
const LOCKS_PER_CONNECTION = 1000;
const LEASES = 50_000;
const TOKENS = 9000;
/** A key with many update tokens, which `token drop` ends. */
const HOT_KEY = "hot";
const REQUESTS_PER_WRITE = 500;

export async function main(args: readonly string[]): Promise<void> {
  const { items, rounds, io, threads, only, memcached } = readOptions(args, {
    items: 1_000_000,
    rounds: 3,
    io: IO,
    threads: 1,
    /** A pattern of names of commands. */
    only: "",
    memcached: DEBIAN_MEMCACHED,
  });
  await using servers = new Servers(threads);
  await servers.pinClients();
  const ours = await servers.leased(io, LEASED_OPTIONS);
  const theirs = await servers.memcached(memcached);
  const names = [ours, theirs].map(({ name }) => name.slice(0, 20));
  for (const { port } of [ours, theirs]) fillNumbers(port, 0, items, VALUE.length);
  using stack = new DisposableStack();
  for (let at = 0; at < LOCKERS * LOCKS_PER_CONNECTION; at += LOCKS_PER_CONNECTION) {
    const locker = stack.use(await connect(ours.port));
    await askEach(locker, LOCKS_PER_CONNECTION, (index) => `lock ${itemKey(at + index)}`);
  }
  const claimant = stack.use(await connect(ours.port));
  await askEach(claimant, LEASES, (index) => `getss 10000 lease:${index}`);
  await fillTokens(ours.port);
  const table = new Table("longest wait, ms", ...names.flatMap((name) => [name, "its CPU time"]));
  let longest: Stall = [0, 0];
  for (const packet of costlyPackets()) {
    if (ENDING.test(packet.name) || !new RegExp(only).test(packet.name)) continue;
    const own = await leastStall(ours, packet, rounds);
    longest = combined(Math.max, longest, own);
    const isKnown = !UNKNOWN_THERE.test(packet.name);
    const other = isKnown ? await leastStall(theirs, packet, rounds) : [];
    table.row(packet.name, ...[...own, ...other].map(fixed(1)));
  }
  table.row("longest of all", ...longest.map(fixed(1)));
  if (!new RegExp(only).test(DEEP_NAME)) return;
  const deep = new Table(`${DEEP_CLIENTS} times ${DEEP_NAME}; ms`, "median", "p99", "longest");
  for (const [at, { port }] of [ours, theirs].entries()) {
    const { p50, p99, longest } = waits(await waitsBeside(port, items));
    deep.row(names[at]!, ...[p50, p99, longest].map(fixed(2)));
  }
}

export async function connect(port: number): Promise<Client> {
  return new Client(await connectWhenOpen(port));
}

/** Sends one get. Returns how long its reply took, in milliseconds. */
export async function roundTrip(client: Client): Promise<number> {
  const startMs = performance.now();
  await client.send(`get ${itemKey(1)}\r\n`);
  await client.until("END\r\n");
  return performance.now() - startMs;
}

/** Sends `count` lines of text, some at a time, and waits until all are answered. */
async function askEach(
  client: Client,
  count: number,
  line: (index: number) => string,
): Promise<void> {
  for (let at = 0; at < count; at += REQUESTS_PER_WRITE) {
    const size = Math.min(REQUESTS_PER_WRITE, count - at);
    const lines = Array.from({ length: size }, (_, index) => `${line(at + index)}\r\n`);
    await client.send(lines.join("") + "mn\r\n");
    await client.until("MN\r\n");
  }
}

/** Takes as many update tokens as fit, half of them on one key. */
async function fillTokens(port: number): Promise<void> {
  using client = await connect(port);
  const key = (index: number): string => index % 2 === 0 ? HOT_KEY : `token:${index}`;
  await askEach(client, TOKENS, (index) => `token get ${key(index)}`);
}

/** The longest wait of a client, and the most CPU time of the server during one, in milliseconds. */
type Stall = readonly [waitMs: number, cpuMs: number];

function combined(choose: (a: number, b: number) => number, one: Stall, other: Stall): Stall {
  return [choose(one[0], other[0]), choose(one[1], other[1])];
}

/** The least stall of some rounds: one that the command causes is in every round. */
async function leastStall(
  server: BenchServer,
  packet: CostlyPacket,
  rounds: number,
): Promise<Stall> {
  let least: Stall = [Infinity, Infinity];
  for (let round = 0; round < rounds; round++) {
    if (/^token drop/.test(packet.name)) await fillTokens(server.port);
    least = combined(Math.min, least, await stallBeside(server, packet));
  }
  return least;
}

/** The stall of a client while another one's packet is served. */
async function stallBeside({ port, pid }: BenchServer, packet: CostlyPacket): Promise<Stall> {
  using quiet = await connect(port);
  const costly = await connect(port);
  await roundTrip(quiet);
  let isOver = false;
  // Until the costly connection is answered and closed, or its time is over.
  const reading = costly.socket.readable.pipeTo(new WritableStream()).catch(() => {})
    .finally(() => isOver = true);
  const sending = costly.send(packet.text + (packet.isBinary ? "" : "quit\r\n")).catch(() => {});
  const startMs = performance.now();
  let longest: Stall = [0, 0];
  const sample = async (): Promise<void> => {
    const before = cpuNanoseconds(pid);
    const waitMs = await roundTrip(quiet);
    longest = combined(Math.max, longest, [waitMs, (cpuNanoseconds(pid) - before) / 1e6]);
  };
  while (!isOver && performance.now() - startMs < BESIDE_MS) {
    await sample();
    await pause(1);
  }
  costly[Symbol.dispose]();
  await Promise.all([reading, sending]);
  await sample();
  return longest;
}

/** The waits of a quiet client beside clients that pipeline deeply, in milliseconds. */
async function waitsBeside(port: number, items: number): Promise<number[]> {
  const load = { batches: [deepBatch(items)] };
  await using busy = await ClientThreads.open(port, load, { connections: DEEP_CLIENTS });
  using quiet = await connect(port);
  let isOver = false;
  const running = busy.run({ seconds: DEEP_SEC }).finally(() => isOver = true);
  const waitsMs: number[] = [];
  while (!isOver) {
    const next = pause(DEEP_SAMPLE_MS);
    waitsMs.push(await roundTrip(quiet));
    await next;
  }
  await running;
  return waitsMs;
}

function deepBatch(items: number): Batch {
  const requests = Array.from({ length: DEEP }, (_, at) => `mg ${itemKey(at % items)} v\r\n`);
  const reply = `VA ${VALUE.length}\r\n${VALUE}\r\n`.repeat(DEEP);
  return { bytes: bytesOf(requests.join("")), reply, count: DEEP };
}
