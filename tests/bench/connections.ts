/** How soon a new server replies to the client that connects first, and what an idle connection costs it. */
import { freePort } from "../support/free_ports.ts";
import { Client, IO_WAYS, residentKib, TRANSPORTS } from "../support/servers/server_process.ts";
import { fill } from "./base/clients.ts";
import { Batches, Generator } from "./base/generator.ts";
import { fixed, median, pause, Table } from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import { CONNECTIONS, rowOf, seededRandom } from "./base/rows.ts";
import { connectWhenOpen, Servers } from "./base/servers.ts";

/** Time for the garbage collections that free the objects of accepting, and for a malloc_trim (`bindNative`). */
const SETTLE_MS = 6000;
/** Between two attempts to connect. */
const PAUSE_MS = 1;

export async function main(args: readonly string[]): Promise<void> {
  const { parts, starts, idle, io: transports } = readOptions(args, {
    parts: someOf(["starts", "idle"]),
    starts: 50,
    idle: 10_000,
    io: someOf(TRANSPORTS),
  });
  if (parts.includes("starts")) {
    const table = new Table(`first reply of ${starts} starts`, "median, ms", "longest, ms");
    for (const io of transports) {
      const waitsMs: number[] = [];
      while (waitsMs.length < starts) waitsMs.push(await firstReplyMs(io));
      table.row(io, ...[median(waitsMs), Math.max(...waitsMs)].map(fixed(1)));
    }
  }
  if (!parts.includes("idle")) return;
  const table = new Table("idle connections", "number", "KiB each");
  for (const { io, ioUring = "auto" } of IO_WAYS.filter((way) => transports.includes(way.io))) {
    await using servers = new Servers(1);
    await servers.pinClients();
    const options = ["-c", `${idle + 100}`, "-o", `io_uring=${ioUring}`];
    const { port, pid } = await servers.leased(io, options);
    const grownKib = await growthByIdle(port, pid, idle);
    table.row(`${io}, io_uring=${ioUring}`, `${idle}`, (grownKib / idle).toFixed(2));
  }
}

/** Milliseconds from the first connection that a new server takes to its first reply. */
async function firstReplyMs(io: string): Promise<number> {
  await using servers = new Servers(4);
  const port = freePort();
  const starting = servers.leased(io, [], {}, port);
  using client = new Client(await connectWhenOpen(port, PAUSE_MS));
  const startMs = performance.now();
  await client.ask("mn\r\n", "MN\r\n");
  const elapsedMs = performance.now() - startMs;
  await starting;
  return elapsedMs;
}

/** Returns what the process grows by, beside a busy load. */
async function growthByIdle(port: number, pid: number, idle: number): Promise<number> {
  const batches = new Batches(rowOf("p1").batches(seededRandom(1)));
  fill(port);
  using busy = new Generator(port, CONNECTIONS, batches);
  // The code that serves many connections at once is compiled before memory is measured.
  busy.run({ seconds: 1 });
  await pause(SETTLE_MS);
  const before = residentKib(pid);
  using idlers = new Generator(port, idle, batches);
  // Each has asked for something once.
  idlers.run({ seconds: 0 });
  await pause(SETTLE_MS);
  busy.run({ seconds: 1 });
  await pause(SETTLE_MS);
  return residentKib(pid) - before;
}
