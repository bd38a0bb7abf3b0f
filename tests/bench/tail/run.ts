/**
 * Latency of leased and memcached at half of what the slower one can do, with eviction, expiry and
 * changing sizes, in alternating rounds. A request counts from the moment at which it should have
 * been sent.
 */
import type { TailResult } from "../open_generator.ts";
import { readOptions } from "../options.ts";
import {
  type BenchServer,
  coresFor,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { median } from "../rows.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { SIZES } from "./mixes.ts";
import { OpenClients } from "./open_clients.ts";

/** Less than the keys need, so that there is eviction. */
const MEMORY_MIB = 64;
/** Requests of the closed loop that measures a server's capacity and fills the store. */
const CLOSED_COUNT = 400_000;
const LOAD = 0.5;
/** Quantiles. */
const SHARES = [0.5, 0.99, 0.999];

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, threads, clients, rate, memcached, port } = readOptions(args, {
    seconds: 60,
    rounds: 30,
    io: "native",
    threads: 1,
    /** Threads that load the servers. */
    clients: 1,
    rate: 0,
    memcached: DEBIAN_MEMCACHED,
    port: 21310,
  }, { io: TRANSPORTS });
  const cores = coresFor(threads);
  say(`-t ${threads} on ${cores.text}; ${clients} client threads`);
  const memory = ["-m", `${MEMORY_MIB}`];
  const servers: BenchServer[] = [];
  try {
    servers.push(await startLeased(port, threads, io, memory, [], cores.server));
    servers.push(await startMemcached(memcached, port + 1, threads, memory, cores.server));
    await pinGenerator(cores.clients.list);
    await measure(servers, clients, rounds, seconds / rounds, rate);
  } finally {
    for (const server of servers) await server.stop();
  }
}

async function measure(
  servers: readonly BenchServer[],
  clients: number,
  rounds: number,
  secondsPerRound: number,
  givenRate: number,
): Promise<void> {
  const loads = await Promise.all(servers.map(({ port }) => OpenClients.open(port, clients)));
  const most: number[] = [];
  for (const load of loads) most.push(await load.runClosed(CLOSED_COUNT));
  const rate = givenRate > 0 ? givenRate : Math.min(...most) * LOAD;
  servers.forEach(({ name }, index) => say(`${name}: ${whole(most[index]!)} requests/s at most`));
  say(`${whole(rate)} requests/s in the rounds; milliseconds:`);
  const results: TailResult[][] = servers.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, { name }] of servers.entries()) {
      const result = await loads[index]!.run(round % SIZES, rate, secondsPerRound);
      results[index]!.push(result);
      say(`  round ${round + 1}  ${name.padEnd(20)} ${latencyText(result)}`);
    }
  }
  for (const load of loads) load.close();
  for (const share of SHARES) {
    const [ours, theirs] = results.map((own) =>
      median(own.map(({ latenciesMs }) => part(latenciesMs, share)))
    ) as [number, number];
    say(
      `p${share * 100}, medians of the rounds: ${ours.toFixed(3)} and ${theirs.toFixed(3)}; ` +
        `ours ÷ theirs ${(ours / theirs).toFixed(3)}`,
    );
  }
}

function latencyText({ latenciesMs, ownPauseMs }: TailResult): string {
  const columns = [...SHARES, 1].map((share) =>
    `${share === 1 ? "max" : `p${share * 100}`} ${part(latenciesMs, share).toFixed(3).padStart(7)}`
  );
  return `${columns.join("  ")}  (generator ${ownPauseMs.toFixed(3)})`;
}

/** Returns the quantile `share` of sorted values. */
function part(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share))]!;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
