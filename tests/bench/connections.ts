/** How soon a new server replies to the client that connects first, and what an idle connection costs it. */
import { IO_WAYS, TRANSPORTS } from "../support/servers/server_process.ts";
import { Generator } from "./generator.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  connectWhenOpen,
  coresFor,
  pinGenerator,
  residentBytes,
  say,
  startLeased,
} from "./processes.ts";
import { checkReply, CONNECTIONS, median, preload, ROWS, seededRandom } from "./rows.ts";

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
    for (const io of transports) {
      const waitsMs: number[] = [];
      while (waitsMs.length < starts) waitsMs.push(await firstReplyMs(port, threads || 4, io));
      const [middle, longest] = [median(waitsMs), Math.max(...waitsMs)].map((ms) => ms.toFixed(1));
      say(`${io}: ${starts} first replies, median ${middle} ms, longest ${longest} ms`);
    }
  }
  if (!parts.includes("idle")) return;
  await pinGenerator();
  for (const { io, ioUring = "auto" } of IO_WAYS.filter((way) => transports.includes(way.io))) {
    const options = ["-c", `${idle + 100}`, "-o", `io_uring=${ioUring}`];
    const server = await startLeased(port, threads || 1, io, options);
    try {
      await measureIdle(server, idle);
    } finally {
      await server.stop();
    }
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

async function measureIdle(server: BenchServer, idle: number): Promise<void> {
  const batches = ROWS.find(({ name }) => name === "p1")!.batches(seededRandom(1));
  const busy = new Generator(server.port, CONNECTIONS);
  busy.verify(preload(), checkReply(preload()));
  // The code that serves many connections at once is compiled before memory is measured.
  busy.run(batches, 1);
  await settle();
  const before = residentBytes(server.pid);
  const idlers = new Generator(server.port, idle);
  // Each has asked for something once.
  idlers.run(batches, 0);
  await settle();
  busy.run(batches, 1);
  await settle();
  const grown = residentBytes(server.pid) - before;
  say(`${server.name}: ${idle} idle connections, ${(grown / idle / 1024).toFixed(2)} KiB each`);
  for (const generator of [busy, idlers]) generator.close();
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
