/**
 * The time that a client waits for cached rows beside others that misbehave, at an origin and at a server without
 * `--db`; and the memory of both.
 */
import { itemKey } from "../support/load/costly_requests.ts";
import { residentKib } from "../support/servers/server_process.ts";
import { type Attack, type AttackHandlers, ATTACKS, LARGE_KEYS, LARGE_VALUE } from "./attacker.ts";
import { startOrigin } from "./database.ts";
import { connect, roundTrip } from "./fairness.ts";
import { Comparison, type Figures, pause, ratio, typical, waits } from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import { ALL_CORES, type BenchServer, Servers } from "./base/servers.ts";
import { Workers } from "./base/workers.ts";

/** Samples are taken at fixed times, so that a long wait does not stand for many. */
const SAMPLE_MS = 2;
/** Time for connections of the round before to end, and for those of this one to be at work. */
const SETTLE_MS = 500;
/** Time until the kernel's buffers of clients that never read are full. */
const FULL_MS = 5000;
const MEMORY_EVERY = 50;
const CONNECTIONS_MAX = 12_000;

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, attacks, memory, folder } = readOptions(args, {
    seconds: 3,
    rounds: 3,
    attacks: someOf(ATTACKS),
    memory: 256,
    folder: ".",
  });
  await using servers = new Servers(1, ALL_CORES);
  const place = await servers.folder(folder);
  const file = `${place}/rows.db`;
  const options = ["-c", `${CONNECTIONS_MAX}`, "-m", `${memory}`];
  const rows = ["--db", `sqlite:${file}`, "--db-timeout", "1000"];
  const origin = await startOrigin(servers, place, [...options, ...rows]);
  const bare = await startOrigin(servers, place, options);
  for (const server of [origin, bare]) await fill(server);
  using attackers = new Workers<AttackHandlers>(new URL("./attacker.ts", import.meta.url), 1);
  const table = new Comparison<"p50" | "p99" | "mib">("beside", {
    "p50, ms": typical("p50", 2),
    "p99, ms": typical("p99", 2),
    "p99, rows ÷ without": ratio("p99"),
    "peak, MiB": (own) => Math.max(...own.map(({ mib }) => mib)).toFixed(0),
  });
  for (const attack of attacks as readonly Attack[]) {
    const measure = (server: BenchServer, locked: string) => () =>
      waitsBeside(server, attackers, attack, locked, seconds);
    const contestants = [
      { name: `${attack}: with --db`, measure: measure(origin, file) },
      { name: `${attack}: without --db`, measure: measure(bare, "") },
    ];
    await table.add(contestants, rounds);
  }
}

/** Stores the rows, and reads them into the cache. */
async function fill({ port }: BenchServer): Promise<void> {
  using client = await connect(port);
  for (const key of LARGE_KEYS) {
    const value = `${LARGE_VALUE.length}\r\n${LARGE_VALUE}\r\n`;
    await client.ask(`set ${key} 0 0 ${value}`, "STORED\r\n");
    await client.ask(`get ${key}\r\n`, `VALUE ${key} 0 ${value}END\r\n`);
  }
  await client.ask(`set ${itemKey(1)} 0 0 1\r\nv\r\n`, "STORED\r\n");
  await roundTrip(client);
}

async function waitsBeside(
  { port, pid }: BenchServer,
  attackers: Workers<AttackHandlers>,
  attack: Attack,
  file: string,
  seconds: number,
): Promise<Figures<"p50" | "p99" | "mib">> {
  using quiet = await connect(port);
  const settleMs = attack === "unread" ? FULL_MS : SETTLE_MS;
  await attackers.ask("open", () => [attack, port, file]);
  const running = attackers.ask("run", () => [settleMs / 1000 + seconds]);
  await pause(settleMs);
  const waitsMs: number[] = [];
  let kib = 0;
  const endMs = performance.now() + seconds * 1000;
  while (performance.now() < endMs) {
    const next = pause(SAMPLE_MS);
    waitsMs.push(await roundTrip(quiet));
    if (waitsMs.length % MEMORY_EVERY === 1) kib = Math.max(kib, residentKib(pid));
    await next;
  }
  await running;
  await attackers.ask("close", () => []);
  await pause(SETTLE_MS);
  return { ...waits(waitsMs), mib: kib / 1024 };
}
