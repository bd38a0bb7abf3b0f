/**
 * How long a client waits beside another one that sends one read full of a costly command, for every command of both
 * protocols, among a million items; and beside 50 clients that pipeline deeply. On a busy machine a wait is mostly the
 * time of other programs. The server's own CPU time during a wait is not.
 */
import { type CostlyPacket, costlyPackets, itemKey } from "../../support/load/costly_requests.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { ClientThreads } from "../clients/threads.ts";
import { askEach, connect, discard, roundTrip, send } from "./clients.ts";
import { type Batch, Batches, Generator } from "../generator.ts";
import { NumberedSets } from "../numbered_sets.ts";
import { readOptions } from "../options.ts";
import {
  type BenchServer,
  coresFor,
  cpuNanoseconds,
  DEBIAN_MEMCACHED,
  pinGenerator,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { quantile, Table } from "../table.ts";

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

/** A deep pipeline: what each of many clients sends again and again. */
const DEEP = 8000;
const DEEP_NAME = `mg, ${DEEP} deep`;
const DEEP_CLIENTS = { count: 1, connections: 50 };
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
const SETS_PER_BATCH = 500;

export async function main(args: readonly string[]): Promise<void> {
  const { items, rounds, io, threads, only, memcached, port } = readOptions(args, {
    items: 1_000_000,
    rounds: 3,
    io: "native",
    threads: 1,
    only: "",
    memcached: DEBIAN_MEMCACHED,
    port: 21330,
  }, { io: TRANSPORTS });
  await pinGenerator(coresFor(threads).clients.list);
  await using stack = new AsyncDisposableStack();
  const servers = [
    stack.use(await startLeased(port, threads, io, LEASED_OPTIONS)),
    stack.use(await startMemcached(memcached, port + 1, threads)),
  ];
  for (const server of servers) fill(server.port, items);
  const lockers = await claim(port);
  await compareCommands(servers, new RegExp(only), rounds);
  if (new RegExp(only).test(DEEP_NAME)) await comparePipelines(servers, items);
  for (const locker of lockers) locker.close();
}

/** The longest wait of a client, and the most CPU time of the server during one, in milliseconds. */
interface Stall {
  readonly waitMs: number;
  readonly cpuMs: number;
}

/** The stall of a client beside one packet of each command. */
async function compareCommands(
  servers: readonly BenchServer[],
  only: RegExp,
  rounds: number,
): Promise<void> {
  const names = servers.map(({ name }) => name.slice(0, 20));
  const table = new Table("longest wait, ms", ...names.flatMap((name) => [name, "its CPU time"]));
  const [ours, theirs] = servers as [BenchServer, BenchServer];
  let longest: Stall = { waitMs: 0, cpuMs: 0 };
  for (const packet of costlyPackets()) {
    if (ENDING.test(packet.name) || !only.test(packet.name)) continue;
    const own = await leastStall(ours, packet, rounds);
    longest = combined(Math.max, longest, own);
    const isKnown = !UNKNOWN_THERE.test(packet.name);
    const other = isKnown ? cells(await leastStall(theirs, packet, rounds)) : ["", ""];
    table.row(packet.name, ...cells(own), ...other);
  }
  table.row("longest of all", ...cells(longest));
}

function cells({ waitMs, cpuMs }: Stall): string[] {
  return [waitMs.toFixed(1), cpuMs.toFixed(1)];
}

function combined(choose: (a: number, b: number) => number, a: Stall, b: Stall): Stall {
  return { waitMs: choose(a.waitMs, b.waitMs), cpuMs: choose(a.cpuMs, b.cpuMs) };
}

/** A get beside clients that pipeline deeply. */
async function comparePipelines(servers: readonly BenchServer[], items: number): Promise<void> {
  const { connections } = DEEP_CLIENTS;
  const table = new Table(`${connections} times ${DEEP_NAME}; ms`, "median", "p99", "longest");
  for (const { name, port } of servers) {
    const waits = (await waitsBeside(port, items)).sort((a, b) => a - b);
    table.row(
      name.slice(0, 20),
      ...[0.5, 0.99, 1].map((share) => quantile(waits, share).toFixed(2)),
    );
  }
}

/** Stores the items, over one connection. */
function fill(port: number, items: number): void {
  const sets = new NumberedSets(SETS_PER_BATCH, VALUE_BYTES);
  const generator = new Generator(port, 1, new Batches([sets.batch]));
  for (let at = 0; at < items; at += SETS_PER_BATCH) generator.ask(sets.from(at));
  generator.close();
}

/** Takes locks, leases and update tokens. Returns the connections that hold the locks. */
async function claim(port: number): Promise<Deno.Conn[]> {
  const lockers: Deno.Conn[] = [];
  for (let locker = 0; locker < LOCKERS; locker++) {
    const connection = await connect(port);
    lockers.push(connection);
    const first = locker * LOCKS_PER_CONNECTION;
    await askEach(connection, LOCKS_PER_CONNECTION, (index) => `lock ${itemKey(first + index)}`);
  }
  using connection = await connect(port);
  await askEach(connection, LEASES, (index) => `getss 10000 lease:${index}`);
  await fillTokens(port);
  return lockers;
}

/** Takes as many update tokens as fit, half of them on one key. */
async function fillTokens(port: number): Promise<void> {
  using connection = await connect(port);
  await askEach(
    connection,
    TOKENS,
    (index) => `token get ${index % 2 === 0 ? HOT_KEY : `token:${index}`}`,
  );
}

/** The least stall of some rounds: one that the command causes is in every round. */
async function leastStall(
  server: BenchServer,
  packet: CostlyPacket,
  rounds: number,
): Promise<Stall> {
  let least: Stall = { waitMs: Infinity, cpuMs: Infinity };
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
  const reading = discard(costly).finally(() => isOver = true);
  const end = packet.isBinary ? "" : "quit\r\n";
  const sending = send(costly, bytesOf(packet.text + end)).catch(() => {});
  const startMs = performance.now();
  let longest: Stall = { waitMs: 0, cpuMs: 0 };
  const sample = async (): Promise<void> => {
    const before = cpuNanoseconds(pid);
    const waitMs = await roundTrip(quiet);
    const cpuMs = (cpuNanoseconds(pid) - before) / 1e6;
    longest = combined(Math.max, longest, { waitMs, cpuMs });
  };
  // Until the costly connection is answered and closed, or its time is over.
  while (!isOver && performance.now() - startMs < BESIDE_MS) {
    await sample();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  costly.close();
  await Promise.all([reading, sending]);
  await sample();
  return longest;
}

/** The waits of a quiet client beside clients that pipeline deeply, in milliseconds. */
async function waitsBeside(port: number, items: number): Promise<number[]> {
  const busy = await ClientThreads.open(port, { batches: [deepBatch(items)] }, DEEP_CLIENTS);
  using quiet = await connect(port);
  let isOver = false;
  const running = busy.run({ seconds: DEEP_SEC, perSecond: 0 }).finally(() => isOver = true);
  const waits: number[] = [];
  while (!isOver) {
    const pause = new Promise((resolve) => setTimeout(resolve, DEEP_SAMPLE_MS));
    waits.push(await roundTrip(quiet));
    await pause;
  }
  await running;
  await busy.close();
  return waits;
}

function deepBatch(items: number): Batch {
  const requests = Array.from({ length: DEEP }, (_, at) => `mg ${itemKey(at % items)} v\r\n`);
  const reply = `VA ${VALUE_BYTES}\r\n${"v".repeat(VALUE_BYTES)}\r\n`.repeat(DEEP);
  return { bytes: bytesOf(requests.join("")), reply, endsWithId: false, count: DEEP };
}
