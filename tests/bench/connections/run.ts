/**
 * Many connections: what an idle one costs the server beside the kernel's part, and whether a
 * thousand busy ones are served, over each transport in every way. First: how soon a new server replies.
 */
import { Generator } from "../generator.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, pinGenerator, say, startLeased } from "../processes.ts";
import { IO_WAYS, TRANSPORTS } from "../../support/servers/server_process.ts";
import { type BenchRow, checkReply, CONNECTIONS, preload, ROWS, seededRandom } from "../rows.ts";
import { compareStarts } from "./starts.ts";

const PARTS = ["starts", "idle"];
/** Time for the garbage collections that free the objects of accepting, and for a malloc_trim (`bindNative`). */
const SETTLE_MS = 6000;

export async function main(args: readonly string[]): Promise<void> {
  const { parts, starts, idle, active, seconds, io: transports, threads, port } = readOptions(
    args,
    {
      parts: PARTS,
      starts: 50,
      idle: 10_000,
      active: 1000,
      seconds: 3,
      io: TRANSPORTS as readonly string[],
      threads: 0,
      port: 21300,
    },
    { parts: PARTS, io: TRANSPORTS },
  );
  if (parts.includes("starts")) await compareStarts(starts, transports, threads || 4, port);
  if (!parts.includes("idle")) return;
  const connections = idle + active + 100;
  await pinGenerator();
  for (const { io, ioUring = "auto" } of IO_WAYS.filter((way) => transports.includes(way.io))) {
    const options = ["-c", `${connections}`, "-o", `io_uring=${ioUring}`];
    const server = await startLeased(port, threads || 1, io, options);
    try {
      await measure(server, idle, active, seconds);
    } finally {
      await server.stop();
    }
  }
}

async function measure(
  server: BenchServer,
  idle: number,
  active: number,
  seconds: number,
): Promise<void> {
  const row: BenchRow = ROWS.find(({ name }) => name === "p1")!;
  const batches = row.batches(seededRandom(1));
  const filler = new Generator(server.port, CONNECTIONS);
  filler.verify(preload(), checkReply(preload()));
  // The code that serves many connections at once is compiled before memory is measured.
  filler.run(batches, 1);
  await settle();
  const before = residentBytes(server.pid);
  const idlers = new Generator(server.port, idle);
  // Each has asked for something once.
  idlers.run(batches, 0);
  await settle();
  filler.run(batches, 1);
  await settle();
  const grown = residentBytes(server.pid) - before;
  const busy = new Generator(server.port, active);
  busy.verify(batches.slice(0, 50), checkReply(batches));
  const { count, seconds: elapsed } = busy.run(batches, seconds);
  say(
    `${server.name}: ${idle} idle connections, ${(grown / idle / 1024).toFixed(2)} KiB each; ` +
      `${active} busy ones, ${
        Math.round(count / elapsed).toLocaleString("en")
      } requests/s, no error`,
  );
  for (const generator of [filler, idlers, busy]) generator.close();
}

/** Resident memory of a process in bytes, without the kernel's socket buffers (Linux). */
function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]) * 1024;
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
