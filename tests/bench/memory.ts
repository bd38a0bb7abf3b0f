/** Growth of the process while its store gets full, as part of `-m`, and CPU time of each batch of sets (Linux). */
import { MIB } from "../../store/limits.ts";
import { residentKib } from "../support/servers/server_process.ts";
import { Batches, Generator } from "./base/generator.ts";
import { KEY_BYTES, NumberedSets } from "./base/loads.ts";
import { Comparison, pause, spread, Table } from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import { ThreadTime, threadTimes } from "./base/processes.ts";
import { type BenchServer, IO, Servers } from "./base/servers.ts";
import { leastOf, pieces, PIECES_HEADS } from "./base/timings.ts";

const CONNECTIONS = 4;
const FILL_BATCH = 32;
/** Bytes of keys and values to store, as part of the memory limit. Headers take memory too, so the store gets full. */
const FILL_SHARE = 1.1;
/** Time for the server's background work after start and after the load. */
const SETTLE_MS = 1000;
const GROWTH_MEMORY_MIB = 2048;
const GROWTH_VALUE_BYTES = 100;
/** Batches of sets after which the thread that serves them is the busiest one. */
const WARM_UPS = 100;

export async function main(args: readonly string[]): Promise<void> {
  const { parts, items, batch, memory, threads, fills, rounds, io } = readOptions(args, {
    /** Limit: growth of the process, as part of `-m`. Growth: what sets take while items arrive. */
    parts: someOf(["limit", "growth"]),
    items: 10_000_000,
    batch: 20,
    memory: [64, 256, 1024],
    threads: [1, 4],
    /** Bytes of values. */
    fills: [64, 256, 1024],
    rounds: 3,
    io: IO,
  });
  if (parts.includes("growth")) {
    const took: Float32Array[] = [];
    while (took.length < rounds) {
      await using servers = new Servers(1);
      await servers.pinClients();
      took.push(timeSets(await servers.leased(io, ["-m", `${GROWTH_MEMORY_MIB}`]), items, batch));
    }
    const table = new Table("µs of CPU", ...PIECES_HEADS);
    table.row(`${batch} sets, the least of ${rounds}`, ...pieces(leastOf(took)));
  }
  if (!parts.includes("limit")) return;
  const table = new Comparison("grows by, as part of -m", { part: spread("part") });
  for (const mib of memory) {
    for (const count of threads) {
      for (const valueBytes of fills) {
        const measure = async (): Promise<{ part: number }> => {
          await using servers = new Servers(count);
          await servers.pinClients();
          const server = await servers.leased(io, ["-m", `${mib}`]);
          return { part: await growthOf(server, mib * MIB, valueBytes) / (mib * MIB) };
        };
        const name = `-m ${mib} -t ${count}, ${valueBytes}-byte values`;
        await table.add([{ name, measure }], rounds);
      }
    }
  }
}

/** Fills the store. @returns Bytes that the process grew by. */
async function growthOf(
  { port, pid }: BenchServer,
  bytes: number,
  valueBytes: number,
): Promise<number> {
  const sets = new NumberedSets(FILL_BATCH, valueBytes);
  using stack = new DisposableStack();
  const clients = Array.from(
    { length: CONNECTIONS },
    () => stack.use(new Generator(port, 1, new Batches([sets.batch]))),
  );
  const set = (index: number): void => {
    clients[index % CONNECTIONS]!.ask(sets.from(index * FILL_BATCH));
  };
  // The server listens before all threads run. A thread that answers runs.
  for (let index = 0; index < CONNECTIONS; index++) set(index);
  await pause(SETTLE_MS);
  const before = residentKib(pid);
  const batches = bytes * FILL_SHARE / (KEY_BYTES + valueBytes) / FILL_BATCH;
  for (let index = CONNECTIONS; index < batches; index++) set(index);
  stack.dispose();
  await pause(SETTLE_MS);
  return (residentKib(pid) - before) * 1024;
}

/** Sets `items` new keys over one connection, `count` at a time. */
function timeSets({ port, pid }: BenchServer, items: number, count: number): Float32Array {
  const sets = new NumberedSets(count, GROWTH_VALUE_BYTES);
  using client = new Generator(port, 1, new Batches([sets.batch]));
  const times = threadTimes(pid);
  for (let count = 0; count < WARM_UPS; count++) client.ask(sets.from(0));
  const grown = ([path, ns]: [string, number]): number => ns - (times.get(path) ?? 0);
  const [busiest] = [...threadTimes(pid)].reduce((most, one) =>
    grown(one) > grown(most) ? one : most
  );
  using thread = new ThreadTime(busiest);
  let before = thread.nanoseconds();
  return Float32Array.from({ length: Math.floor(items / count) }, (_, index) => {
    client.ask(sets.from(index * count));
    const ns = thread.nanoseconds();
    const tookUs = (ns - before) / 1000;
    before = ns;
    return tookUs;
  });
}
