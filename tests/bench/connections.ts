/** How soon a new server replies to the client that connects first, and what an idle connection costs it. */
import { IO_WAYS, TRANSPORTS } from "../support/servers/server_process.ts";
import { Batches, Generator } from "./generator.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  connectWhenOpen,
  coresFor,
  pinGenerator,
  residentBytes,
  startLeased,
} from "./processes.ts";
import { checkReply, CONNECTIONS, median, preload, ROWS, seededRandom } from "./rows.ts";
import { Table } from "./table.ts";

const PARTS = ["starts", "idle"];
/** Time for the garbage collections that free the objects of accepting, and for a malloc_trim (`bindNative`). */
const SETTLE_MS = 6000;
/** Between two attempts to connect. */
const PAUSE_MS = 1;

export async function main(args: readonly string[]): Promise<void> {
  const { parts, starts, idle, io: transports, threads, port } = readOptions(args, {
    parts: PARTS,
    starts: 50,
    idle: 10_000,
    io: TRANSPORTS as readonly string[],
    threads: 0,
    port: 21300,
  }, { parts: PARTS, io: TRANSPORTS });
  if (parts.includes("starts")) {
    const table = new Table(`first reply of ${starts} starts`, "median, ms", "longest, ms");
    for (const io of transports) {
      const waitsMs: number[] = [];
      while (waitsMs.length < starts) waitsMs.push(await firstReplyMs(port, threads || 4, io));
      table.row(io, median(waitsMs).toFixed(1), Math.max(...waitsMs).toFixed(1));
    }
  }
  if (!parts.includes("idle")) return;
  await pinGenerator();
  const table = new Table("idle connections", "number", "KiB each");
  for (const { io, ioUring = "auto" } of IO_WAYS.filter((way) => transports.includes(way.io))) {
    const options = ["-c", `${idle + 100}`, "-o", `io_uring=${ioUring}`];
    await using server = await startLeased(port, threads || 1, io, options);
    const grown = await growthByIdle(server, idle);
    table.row(`${io}, io_uring=${ioUring}`, String(idle), (grown / idle / 1024).toFixed(2));
  }
}

/** Milliseconds from the first connection that a new server takes to its first reply. */
async function firstReplyMs(port: number, threads: number, io: string): Promise<number> {
  const starting = startLeased(port, threads, io, [], [], coresFor(threads).server);
  using connection = await connectWhenOpen(port, PAUSE_MS);
  const startMs = performance.now();
  await connection.write(new TextEncoder().encode("mn\r\n"));
  if (await connection.read(new Uint8Array(8)) === null) throw new Error("No reply to `mn`");
  const elapsedMs = performance.now() - startMs;
  await (await starting).stop();
  return elapsedMs;
}

/** Returns the bytes that the process grows by, beside a busy load. */
async function growthByIdle(server: BenchServer, idle: number): Promise<number> {
  const row = ROWS.find(({ name }) => name === "p1")!.batches(seededRandom(1));
  const busy = new Generator(server.port, CONNECTIONS, new Batches(row));
  const keys = preload();
  busy.verify(keys, checkReply(keys));
  // The code that serves many connections at once is compiled before memory is measured.
  busy.run({ seconds: 1, perSecond: 0 });
  await settle();
  const before = residentBytes(server.pid);
  const idlers = new Generator(server.port, idle, new Batches(row));
  // Each has asked for something once.
  idlers.run({ seconds: 0, perSecond: 0 });
  await settle();
  busy.run({ seconds: 1, perSecond: 0 });
  await settle();
  const grown = residentBytes(server.pid) - before;
  for (const generator of [busy, idlers]) generator.close();
  return grown;
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
