/** How busy a load keeps servers: requests a second, and CPU time of each. */
import process from "node:process";
import type { ClientThreads } from "./clients.ts";
import { Comparison, type Figures, percent, ratio, typical } from "./measure.ts";
import { cpuNanoseconds } from "./processes.ts";
import type { BenchServer } from "./servers.ts";

const WARM_UP_SEC = 1;

/** A server under load. */
export interface Loaded {
  readonly server: BenchServer;
  /** By default the server's. */
  readonly name?: string;
  /** Keeps the server busy. Returns the number of requests, or what is counted instead. */
  run(seconds: number): number | Promise<number>;
}

/** Runs client threads as fast as the server answers. */
export function runOf(clients: ClientThreads): Loaded["run"] {
  return async (seconds) => (await clients.run({ seconds })).count;
}

/** Measures a load beside others in alternating rounds. @param unit the thing that loads count, in the singular. */
export async function compareLoads(
  title: string,
  unit: string,
  loads: readonly Loaded[],
  rounds: number,
  seconds: number,
): Promise<void> {
  for (const load of loads) await load.run(WARM_UP_SEC);
  const table = new Comparison(title, {
    [`${unit}s/s`]: typical("perSecond"),
    [`µs CPU/${unit}`]: typical("cpuUs", 3),
    server: typical("server", percent),
    generator: typical("generator", percent),
    "CPU, ours ÷ theirs": ratio("cpuUs"),
    [`${unit}s/s, ours ÷ theirs`]: ratio("perSecond"),
  });
  const contestants = loads.map((load) => ({
    name: load.name ?? load.server.name,
    measure: () => measure(load, seconds),
  }));
  await table.add(contestants, rounds);
}

/** `server`, `generator`: the part of one core that it was busy. */
async function measure(
  { server, run }: Loaded,
  seconds: number,
): Promise<Figures<"perSecond" | "cpuUs" | "server" | "generator">> {
  const pids = [server.pid, process.pid];
  const before = pids.map(cpuNanoseconds);
  const startMs = performance.now();
  const count = await run(seconds);
  const ranSec = (performance.now() - startMs) / 1000;
  const [serverNs, ownNs] = pids.map((pid, at) => cpuNanoseconds(pid) - before[at]!);
  return {
    perSecond: count / ranSec,
    cpuUs: serverNs! / 1000 / count,
    server: serverNs! / 1e9 / ranSec,
    generator: ownNs! / 1e9 / ranSec,
  };
}
