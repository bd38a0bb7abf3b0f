/**
 * Memcached and leased under the same load, in alternating rounds: requests per second, CPU per
 * request, and ours ÷ theirs.
 *
 *     deno task bench:ratio [--help]
 */
import process from "node:process";
import { type Batch, Generator } from "./generator.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  cpuNanoseconds,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "./processes.ts";
import { Certificates, tlsArguments } from "../support/servers/certificates.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import {
  type BenchRow,
  checkReply,
  CONNECTIONS,
  median,
  preload,
  ROWS,
  seededRandom,
} from "./rows.ts";

const WARM_UP_SEC = 1;
const DEBIAN_MEMCACHED = "/usr/bin/memcached";

/** One server under one load for one round. */
interface Sample {
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
  /** The part of one core that the server, or the generator, was busy: 0..1. */
  readonly serverShare: number;
  readonly generatorShare: number;
}

/** A server and the load it is measured with. */
interface Contestant {
  readonly server: BenchServer;
  readonly name: string;
  readonly batches: readonly Batch[];
}

interface Comparison {
  readonly row: string;
  readonly server: string;
  readonly samples: readonly Sample[];
  /** CPU per request, ours ÷ theirs, one a round. Empty for ours. */
  readonly cpuRatios: readonly number[];
  readonly goal: number;
}

if (import.meta.main) await main();

async function main(): Promise<void> {
  const names = ROWS.map(({ name }) => name);
  const { rounds, seconds, only, io, threads, memcached, json, port, tls } = readOptions({
    rounds: 5,
    seconds: 2,
    only: names,
    io: "native",
    threads: 1,
    memcached: [DEBIAN_MEMCACHED],
    json: false,
    port: 21290,
    tls: false,
  }, { only: names, io: TRANSPORTS });
  const rows = ROWS.filter(({ name }) => only.includes(name));
  await pinGenerator();
  using certificates = new Certificates();
  const tlsOptions = tls ? tlsArguments(certificates.make("localhost")) : [];
  const servers: BenchServer[] = [];
  const started = async (starting: Promise<BenchServer>): Promise<BenchServer> => {
    const server = await starting;
    servers.push(server);
    fill(server, tls);
    return server;
  };
  /** Ours, by the options they were started with. */
  const ours = new Map<string, BenchServer>();
  const theirs: BenchServer[] = [];
  try {
    for (const path of memcached) {
      theirs.push(await started(startMemcached(path, port + servers.length, threads, tlsOptions)));
    }
    for (const row of rows) {
      const key = row.options?.join(" ") ?? "";
      const our = ours.get(key) ??
        await started(
          startLeased(port + servers.length, threads, io, [...row.options ?? [], ...tlsOptions]),
        );
      ours.set(key, our);
      const contestants = contestantsOf(row, our, theirs);
      const found = compare(row, contestants, rounds, seconds, tls);
      if (json) say(JSON.stringify(found));
      else print(row, found);
    }
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** Ours, then those it is compared with. */
function contestantsOf(
  row: BenchRow,
  our: BenchServer,
  theirs: readonly BenchServer[],
): Contestant[] {
  const batches = row.batches(seededRandom(1));
  const own = { server: our, name: our.name, batches };
  if (row.against === undefined) {
    return [own, ...theirs.map((server) => ({ server, name: server.name, batches }))];
  }
  return [own, { server: our, name: "the same server", batches: row.against(seededRandom(1)) }];
}

function fill(server: BenchServer, tls: boolean): void {
  const generator = new Generator(server.port, 1, tls);
  const batches = preload();
  generator.verify(batches, checkReply(batches));
  generator.close();
}

function compare(
  row: BenchRow,
  contestants: readonly Contestant[],
  rounds: number,
  seconds: number,
  tls: boolean,
): Comparison[] {
  const generators = contestants.map(({ server }) => new Generator(server.port, CONNECTIONS, tls));
  contestants.forEach(({ batches }, index) => {
    generators[index]!.verify(batches.slice(0, 50), checkReply(batches));
    generators[index]!.run(batches, WARM_UP_SEC);
  });
  const samples: Sample[][] = contestants.map(() => []);
  for (let round = 0; round < rounds; round++) {
    contestants.forEach(({ server, batches }, index) => {
      samples[index]!.push(measure(generators[index]!, server, batches, seconds));
    });
  }
  for (const generator of generators) generator.close();
  return contestants.map(({ name }, index) => ({
    row: row.name,
    server: name,
    samples: samples[index]!,
    goal: row.goal,
    cpuRatios: index === 0
      ? []
      : samples[index]!.map((theirs, round) =>
        samples[0]![round]!.cpuMicroseconds / theirs.cpuMicroseconds
      ),
  }));
}

function measure(
  generator: Generator,
  server: BenchServer,
  batches: readonly Batch[],
  seconds: number,
): Sample {
  const serverBefore = cpuNanoseconds(server.pid);
  const ownBefore = cpuNanoseconds(process.pid);
  const result = generator.run(batches, seconds);
  const serverNs = cpuNanoseconds(server.pid) - serverBefore;
  const ownNs = cpuNanoseconds(process.pid) - ownBefore;
  return {
    perSecond: result.count / result.seconds,
    cpuMicroseconds: serverNs / 1000 / result.count,
    serverShare: serverNs / 1e9 / result.seconds,
    generatorShare: ownNs / 1e9 / result.seconds,
  };
}

function print(row: BenchRow, found: readonly Comparison[]): void {
  say(`\n${row.name}: ${row.title} (goal ${row.goal.toFixed(2)})`);
  for (const { server, samples, cpuRatios } of found) {
    const of = (pick: (sample: Sample) => number): number => median(samples.map(pick));
    const columns = [
      server.padEnd(22),
      `${Math.round(of((sample) => sample.perSecond)).toLocaleString("en")} ${row.unit}s/s`
        .padStart(22),
      `${of((sample) => sample.cpuMicroseconds).toFixed(3)} µs CPU/${row.unit}`.padStart(22),
      `server ${percent(of((sample) => sample.serverShare))}`,
      `generator ${percent(of((sample) => sample.generatorShare))}`,
    ];
    if (cpuRatios.length > 0) {
      const [least, most] = [Math.min(...cpuRatios), Math.max(...cpuRatios)];
      columns.push(
        `ours ÷ theirs ${median(cpuRatios).toFixed(3)} (${least.toFixed(3)}..${most.toFixed(3)})`,
      );
    }
    say("  " + columns.join("  "));
  }
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
