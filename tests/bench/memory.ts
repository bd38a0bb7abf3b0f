/** Growth of the process while its store gets full, as part of `-m`, and CPU time of each batch of sets (Linux). */
import { MIB } from "../../store/limits.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { Batches, Generator } from "./generator.ts";
import { KEY_BYTES, NumberedSets } from "./numbered_sets.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  busiestThread,
  pinGenerator,
  residentBytes,
  startLeased,
  ThreadTime,
  threadTimes,
} from "./processes.ts";
import { ranged, Table } from "./table.ts";
import { leastOf, spread, SPREAD_HEADS, type Took } from "./timings.ts";

/** Limit: growth of the process, as part of `-m`. Growth: what sets take while items arrive. */
const PARTS = ["limit", "growth"];
const CONNECTIONS = 4;
const FILL_BATCH = 32;
/** Bytes of keys and values to store, as part of the memory limit. Headers take memory too, so the store gets full. */
const FILL_SHARE = 1.1;
/** Time for the server's background work after start and after the load. */
const SETTLE_MS = 1000;
const GROWTH_MEMORY_MIB = 2048;
const GROWTH_VALUE_BYTES = 100;

export async function main(args: readonly string[]): Promise<void> {
  const { parts, items, batch, memory, threads, fills, rounds, io, port } = readOptions(args, {
    parts: PARTS,
    items: 10_000_000,
    batch: 20,
    memory: [64, 256, 1024],
    threads: [1, 4],
    fills: [64, 256, 1024],
    rounds: 3,
    io: "native",
    port: 21340,
  }, { parts: PARTS, io: TRANSPORTS });
  await pinGenerator();
  if (parts.includes("growth")) {
    const took: Took[] = [];
    while (took.length < rounds) {
      await using server = await startLeased(port, 1, io, ["-m", `${GROWTH_MEMORY_MIB}`]);
      took.push(timeSets(server, items, batch));
    }
    const table = new Table("µs of CPU", ...SPREAD_HEADS);
    table.row(`${batch} sets, the least of ${rounds}`, ...spread(leastOf(took)));
  }
  if (!parts.includes("limit")) return;
  const table = new Table("grows by, as part of -m", "-t", "value, bytes", "part");
  for (const mib of memory) {
    for (const count of threads) {
      for (const valueBytes of fills) {
        const shares: number[] = [];
        while (shares.length < rounds) {
          await using server = await startLeased(port, count, io, ["-m", `${mib}`]);
          shares.push(await growthOf(server, mib * MIB, valueBytes) / (mib * MIB));
        }
        table.row(`-m ${mib}`, String(count), String(valueBytes), ranged(shares));
      }
    }
  }
}

/** Fills the store. @returns Bytes that the process grew by. */
async function growthOf(server: BenchServer, bytes: number, valueBytes: number): Promise<number> {
  const sets = new NumberedSets(FILL_BATCH, valueBytes);
  const clients = Array.from(
    { length: CONNECTIONS },
    () => new Generator(server.port, 1, new Batches([sets.batch])),
  );
  const set = (index: number): void => {
    clients[index % CONNECTIONS]!.ask(sets.from(index * FILL_BATCH));
  };
  // The server listens before all threads run. A thread that answers runs.
  for (let index = 0; index < CONNECTIONS; index++) set(index);
  await settle();
  const before = residentBytes(server.pid);
  const batches = bytes * FILL_SHARE / (KEY_BYTES + valueBytes) / FILL_BATCH;
  for (let index = CONNECTIONS; index < batches; index++) set(index);
  for (const client of clients) client.close();
  await settle();
  return residentBytes(server.pid) - before;
}

/** Sets `items` new keys over one connection, `count` at a time. */
function timeSets(server: BenchServer, items: number, count: number): Took {
  const sets = new NumberedSets(count, GROWTH_VALUE_BYTES);
  const client = new Generator(server.port, 1, new Batches([sets.batch]));
  const before = threadTimes(server.pid);
  client.ask(sets.from(0));
  using thread = new ThreadTime(busiestThread(before, threadTimes(server.pid)));
  const batches = Math.floor(items / count);
  const took = { wallUs: new Float32Array(batches), cpuUs: new Float32Array(batches) };
  let cpuNs = thread.nanoseconds();
  for (let index = 0; index < batches; index++) {
    const startMs = performance.now();
    client.ask(sets.from(index * count));
    took.wallUs[index] = (performance.now() - startMs) * 1000;
    const nowNs = thread.nanoseconds();
    took.cpuUs[index] = (nowNs - cpuNs) / 1000;
    cpuNs = nowNs;
  }
  client.close();
  return took;
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
