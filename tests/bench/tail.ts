/**
 * Latency of leased and memcached at half of what the slower one can do, with eviction, expiry and
 * changing sizes, in alternating rounds. A request counts from the moment at which it should have
 * been sent.
 *
 *     deno task bench:tail [--help]
 */
import { OpenGenerator, type Request, type TailResult } from "./open_generator.ts";
import { readOptions } from "./options.ts";
import { type BenchServer, pinGenerator, say, startLeased, startMemcached } from "./processes.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { CONNECTIONS, median, type Random, seededRandom } from "./rows.ts";

/** Less than the keys need, so that there is eviction. */
const MEMORY_MIB = 64;
const KEY_COUNT = 400_000;
const REQUEST_COUNT = 200_000;
/** The shortest and the longest value of a round; the next round has values twice as long, so that pages move. */
const VALUE_BYTES = [100, 200] as const;
const SIZES = 3;
const EXPTIME_SEC_MAX = 10;
/** Requests of the closed loop that measures a server's capacity and fills the store. */
const CLOSED_COUNT = 400_000;
const LOAD = 0.5;

if (import.meta.main) await main();

async function main(): Promise<void> {
  const { seconds, rounds, io, threads, rate, memcached, port } = readOptions({
    seconds: 60,
    rounds: 30,
    io: "native",
    threads: 1,
    rate: 0,
    memcached: "/usr/bin/memcached",
    port: 21310,
  }, { io: TRANSPORTS });
  await pinGenerator();
  const servers: BenchServer[] = [];
  try {
    servers.push(await startLeased(port, threads, io, ["-m", `${MEMORY_MIB}`]));
    servers.push(
      await startMemcached(memcached, port + 1, threads, ["-m", `${MEMORY_MIB}`]),
    );
    measure(servers, rounds, seconds / rounds, rate);
  } finally {
    for (const server of servers) await server.stop();
  }
}

function measure(
  servers: readonly BenchServer[],
  rounds: number,
  secondsPerRound: number,
  givenRate: number,
): void {
  const random = seededRandom(1);
  const mixes = Array.from({ length: SIZES }, (_, index) => mix(random, 2 ** index));
  const generators = servers.map(({ port }) => new OpenGenerator(port, CONNECTIONS));
  const loads = generators.map((generator) => generator.runClosed(mixes[0]!, CLOSED_COUNT));
  const rate = givenRate > 0 ? givenRate : Math.min(...loads) * LOAD;
  servers.forEach(({ name }, index) => say(`${name}: ${whole(loads[index]!)} requests/s at most`));
  say(`${whole(rate)} requests/s in the rounds; milliseconds:`);
  const results: TailResult[][] = servers.map(() => []);
  for (let round = 0; round < rounds; round++) {
    servers.forEach(({ name }, index) => {
      const result = generators[index]!.run(mixes[round % SIZES]!, rate, secondsPerRound);
      results[index]!.push(result);
      say(`  round ${round + 1}  ${name.padEnd(20)} ${latencyText(result)}`);
    });
  }
  for (const generator of generators) generator.close();
  const p999 = results.map((own) => median(own.map(({ latenciesMs }) => part(latenciesMs, 0.999))));
  say(
    `p99.9, medians of the rounds: ${p999.map((ms) => ms.toFixed(3)).join(" and ")}; ` +
      `ours ÷ theirs ${(p999[0]! / p999[1]!).toFixed(3)}`,
  );
}

/** 80 % get, 20 % set, every second of them with an expiry time. */
function mix(random: Random, scale: number): Request[] {
  const encoder = new TextEncoder();
  const [shortest, longest] = VALUE_BYTES;
  return Array.from({ length: REQUEST_COUNT }, () => {
    const key = `key:${String(random(KEY_COUNT)).padStart(8, "0")}`;
    if (random(5) > 0) return encoder.encode(`get ${key}\r\n`);
    const length = scale * (shortest + random(longest - shortest));
    const exptime = random(2) * (1 + random(EXPTIME_SEC_MAX));
    return encoder.encode(`set ${key} 0 ${exptime} ${length}\r\n${"v".repeat(length)}\r\n`);
  });
}

function latencyText({ latenciesMs, ownPauseMs }: TailResult): string {
  const columns = [0.5, 0.99, 0.999, 1].map((share) =>
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
