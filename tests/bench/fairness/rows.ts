/**
 * What a client waits for cached rows beside others that misbehave, at an origin and at a server without `--db`; and
 * the memory of both.
 */
import { itemKey } from "../../support/load/costly_requests.ts";
import { Workers } from "../clients/workers.ts";
import { benchFolder, start } from "../database/run.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, residentBytes } from "../processes.ts";
import { median } from "../rows.ts";
import { alternate, quantile, ranged, ratios, Table } from "../table.ts";
import {
  type Attack,
  type AttackOrder,
  ATTACKS,
  LARGE_BYTES,
  LARGE_KEYS,
  largeKey,
} from "./attacker.ts";
import { askEach, connect, roundTrip } from "./clients.ts";

/** Samples are taken at fixed times, so that a long wait does not stand for many. */
const SAMPLE_MS = 2;
/** Time for connections of the round before to end, and for those of this one to be at work. */
const SETTLE_MS = 500;
/** Time until the kernel's buffers of clients that never read are full. */
const FULL_MS = 5000;
const MEMORY_EVERY = 50;
const CONNECTIONS_MAX = 12_000;
const MIB = 2 ** 20;

interface Waits {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly memoryMib: number;
}

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, port, attacks, memory, folder } = readOptions(args, {
    seconds: 3,
    rounds: 3,
    port: 21330,
    attacks: ATTACKS as readonly string[],
    memory: 256,
    folder: ".",
  }, { attacks: ATTACKS });
  await using stack = new AsyncDisposableStack();
  const place = await benchFolder(folder, stack);
  const file = `${place}/rows.db`;
  const options = ["-c", `${CONNECTIONS_MAX}`, "-m", `${memory}`];
  const timeout = ["--db-timeout", "1000"];
  const servers = [
    stack.use(await start(port, place, [...options, "--db", `sqlite:${file}`, ...timeout])),
    stack.use(await start(port + 1, place, options)),
  ];
  for (const server of servers) await fill(server);
  const attackers = new Workers<AttackOrder>(new URL("./attacker.ts", import.meta.url), 1);
  stack.defer(() => attackers.close());
  const table = new Table(
    "beside",
    "p50, ms",
    "without --db",
    "p99, ms",
    "without --db",
    "p99 ratio",
    "peak, MiB",
    "without --db",
  );
  for (const attack of attacks as readonly Attack[]) {
    const [own, bare] = await alternate(servers, rounds, async (server) => {
      const locked = attack === "locked" && server === servers[0] ? file : "";
      return await waitsBeside(server, attackers, attack, locked, seconds);
    }) as [Waits[], Waits[]];
    const figures = (["p50Ms", "p99Ms"] as const).flatMap((name) =>
      [own, bare].map((each) => median(each.map((waits) => waits[name])).toFixed(2))
    );
    const p99Ratios = ratios(own.map(({ p99Ms }) => p99Ms), bare.map(({ p99Ms }) => p99Ms));
    const peaks = [own, bare].map((each) =>
      Math.max(...each.map(({ memoryMib }) => memoryMib)).toFixed(0)
    );
    table.row(attack, ...figures, ranged(p99Ratios), ...peaks);
  }
}

/** Stores the rows, and reads them into the cache. */
async function fill({ port }: BenchServer): Promise<void> {
  using connection = await connect(port);
  const value = "v".repeat(LARGE_BYTES);
  const large = (index: number): string => `ms ${largeKey(index)} ${LARGE_BYTES} q\r\n${value}`;
  for (let index = 0; index < LARGE_KEYS; index++) {
    await askEach(connection, 1, () => large(index));
    await askEach(connection, 1, () => `mg ${largeKey(index)} s`);
  }
  await askEach(connection, 1, () => `ms ${itemKey(1)} 1\r\nv`);
  await roundTrip(connection);
}

async function waitsBeside(
  server: BenchServer,
  attackers: Workers<AttackOrder>,
  attack: Attack,
  file: string,
  seconds: number,
): Promise<Waits> {
  using quiet = await connect(server.port);
  await attackers.ask(() => ({ kind: "start", attack, port: server.port, file }));
  await pause(attack === "unread" ? FULL_MS : SETTLE_MS);
  const waits: number[] = [];
  let memory = 0;
  const endMs = performance.now() + seconds * 1000;
  while (performance.now() < endMs) {
    const next = pause(SAMPLE_MS);
    waits.push(await roundTrip(quiet));
    if (waits.length % MEMORY_EVERY === 1) memory = Math.max(memory, residentBytes(server.pid));
    await next;
  }
  await attackers.ask(() => ({ kind: "stop" }));
  await pause(SETTLE_MS);
  waits.sort((a, b) => a - b);
  return {
    p50Ms: quantile(waits, 0.5),
    p99Ms: quantile(waits, 0.99),
    memoryMib: memory / MIB,
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
