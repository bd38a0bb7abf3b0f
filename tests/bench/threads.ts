/**
 * The throughput of threads together: in process, over one store beside a store each; then over sockets,
 * beside memcached with as many threads.
 */
import v8 from "node:v8";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { textOf } from "../support/sessions/side.ts";
import { compareLoads, type Loaded, runOf } from "./base/busy.ts";
import { ClientThreads, fill } from "./base/clients.ts";
import { Comparison, type Contestant, type Figures, ranged, typical } from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import { type BenchRow, preloadShort, rowOf, THREAD_ROWS } from "./base/rows.ts";
import { DEBIAN_MEMCACHED, IO, serverEngineFlags, Servers } from "./base/servers.ts";
import type { Shared } from "../support/threads.ts";
import type { FeedHandlers } from "./threads_worker.ts";
import { Workers } from "./base/workers.ts";

const STORE_OPTIONS = ["-m", "64"];
const WARM_UP_SEC = 0.5;
const CORES = navigator.hardwareConcurrency;

type Rate = Figures<"perSecond">;

export async function main(args: readonly string[]): Promise<void> {
  const { only, threads, rounds, seconds, parts, memcached, io } = readOptions(args, {
    only: someOf(THREAD_ROWS),
    threads: Array.from({ length: CORES }, (_, index) => index + 1),
    rounds: 5,
    seconds: 0.3,
    parts: someOf(["process", "sockets"]),
    memcached: [DEBIAN_MEMCACHED],
    io: IO,
  });
  const rows = only.map(rowOf);
  if (parts.includes("process")) await inProcess(threads, rows, rounds, seconds);
  for (const count of parts.includes("sockets") ? threads : []) {
    await using servers = new Servers(count);
    const all = [await servers.leased(io)];
    for (const path of memcached) all.push(await servers.memcached(path));
    await servers.pinClients();
    for (const { port } of all) fill(port);
    for (const { name, title, unit } of rows) {
      await using stack = new AsyncDisposableStack();
      const loads: Loaded[] = [];
      for (const server of all) {
        // A thread on each core of the clients.
        const options = { count: servers.clientCount };
        const clients = stack.use(await ClientThreads.open(server.port, { row: name }, options));
        loads.push({ server, run: runOf(clients) });
      }
      await compareLoads(`-t ${count}, ${name}: ${title}`, unit, loads, rounds, seconds);
    }
  }
}

/** Threads that feed conversations over one store, beside threads with a store each. */
async function inProcess(
  counts: readonly number[],
  rows: readonly BenchRow[],
  rounds: number,
  seconds: number,
): Promise<void> {
  for (const flag of serverEngineFlags()) v8.setFlagsFromString(flag);
  const several = counts.filter((count) => count > 1);
  const shared = several.map((count): [number, Shared] => [count, fed(count)]);
  const module = new URL("./threads_worker.ts", import.meta.url);
  using workers = new Workers<FeedHandlers>(module, Math.max(...counts));
  await workers.ask("open", (index) => [
    index,
    [fed(1), ...shared.filter(([count]) => count > index).map(([, store]) => store)],
  ]);
  /** Returns the requests a second of `count` threads together; `sharing` of them share a store: all or none. */
  const run = async (count: number, sharing: number, sec: number): Promise<number> => {
    const ready = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const rates = await workers.ask("run", () => [sharing, sec, ready, count], count);
    return rates.reduce((sum, rate) => sum + rate, 0);
  };
  const team = (name: string, count: number, sharing: number): Contestant<"perSecond"> => ({
    name,
    measure: async () => ({ perSecond: await run(count, sharing, seconds) }),
  });
  for (const row of rows) {
    await workers.ask("load", () => [row.name]);
    const teams = [
      team("1 thread", 1, 1),
      ...several.flatMap((count) => [
        team(`${count} over one store`, count, count),
        team(`${count} with a store each`, count, 1),
      ]),
    ];
    await run(1, 1, WARM_UP_SEC);
    for (const count of several) await run(count, count, WARM_UP_SEC);
    const table = new Comparison(`In process, ${CORES} cores, ${row.name}: ${row.title}`, {
      [`${row.unit}s/s`]: typical("perSecond"),
      "÷ one thread's": (own, [one]) => own === one ? "" : ratios(own, one!),
      // Each team over one store is followed by the one with separate stores.
      "÷ separate stores'": (own, all) => {
        const at = all.indexOf(own);
        return at % 2 === 1 ? ratios(own, all[at + 1]!) : "";
      },
    });
    await table.add(teams, rounds);
  }
}

function ratios(own: readonly Rate[], others: readonly Rate[]): string {
  return ranged(own.map(({ perSecond }, round) => perSecond / others[round]!.perSecond));
}

/** A store with all keys, for so many threads. */
function fed(threads: number): Shared {
  const side = new ConversationSide([...STORE_OPTIONS, "-t", String(threads)]);
  const peer = side.connect();
  for (const { bytes, reply } of preloadShort()) {
    if (peer.ask(textOf(bytes)) !== reply) throw new Error("Cannot measure: a key was not stored");
  }
  peer.disconnect();
  return { shared: side.shared, settings: side.thread.settings };
}
