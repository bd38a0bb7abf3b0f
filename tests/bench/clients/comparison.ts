/** Measures servers under the same load, in alternating rounds: requests per second and CPU per request. */
import process from "node:process";
import { Memcslap } from "./memcslap.ts";
import { type ClientOptions, ClientThreads } from "./threads.ts";
import { Generator } from "../generator.ts";
import { type BenchServer, cpuNanoseconds, say } from "../processes.ts";
import { type BenchRow, checkReply, median, preload } from "../rows.ts";

const WARM_UP_SEC = 1;

/** One server under one load for one round. */
export interface Sample {
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
  /** The part of one core that the server, or the generator, was busy: 0..1. */
  readonly serverShare: number;
  readonly generatorShare: number;
}

/** A server and the load it is measured with. */
export interface Contestant {
  readonly server: BenchServer;
  readonly name: string;
  /** Whether it gets the load that the row is compared with. */
  readonly against: boolean;
}

export interface Comparison {
  readonly row: string;
  readonly server: string;
  readonly samples: readonly Sample[];
  /** CPU per request, ours ÷ theirs, one a round. Empty for ours. */
  readonly cpuRatios: readonly number[];
  /** Requests a second, as `cpuRatios`. */
  readonly rateRatios: readonly number[];
  readonly goal: number;
}

/** Ours ÷ theirs, one a round. */
function ratios(
  ours: readonly Sample[],
  theirs: readonly Sample[],
  pick: (sample: Sample) => number,
): number[] {
  return theirs.map((sample, round) => pick(ours[round]!) / pick(sample));
}

/** Stores the keys of all rows. */
export function fill(server: BenchServer, tls: boolean): void {
  const generator = new Generator(server.port, 1, tls);
  const batches = preload();
  generator.verify(batches, checkReply(batches));
  generator.close();
}

/** Keeps a server busy. */
interface Load {
  /** @returns Requests or keys a second. */
  run(seconds: number): Promise<number>;
  close(): void | Promise<void>;
}

/** Measures `row` on all contestants; the first one is compared with each of the others. */
export async function compare(
  row: BenchRow,
  contestants: readonly Contestant[],
  rounds: number,
  seconds: number,
  clients: ClientOptions,
): Promise<Comparison[]> {
  const loads: Load[] = [];
  for (const { server, against } of contestants) {
    loads.push(
      clients.memcslap === true
        ? new Memcslap(server.port, row.name)
        : await ClientThreads.open(server.port, row, against, clients),
    );
    await loads.at(-1)!.run(WARM_UP_SEC);
  }
  const samples: Sample[][] = contestants.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, { server }] of contestants.entries()) {
      samples[index]!.push(await measure(loads[index]!, server, seconds));
    }
  }
  for (const load of loads) await load.close();
  return contestants.map(({ name }, index) => {
    const rival = index === 0 ? [] : samples[index]!;
    return {
      row: row.name,
      server: name,
      samples: samples[index]!,
      goal: row.goal,
      cpuRatios: ratios(samples[0]!, rival, ({ cpuMicroseconds }) => cpuMicroseconds),
      rateRatios: ratios(samples[0]!, rival, ({ perSecond }) => perSecond),
    };
  });
}

async function measure(
  load: Load,
  server: BenchServer,
  seconds: number,
): Promise<Sample> {
  const serverBefore = cpuNanoseconds(server.pid);
  const ownBefore = cpuNanoseconds(process.pid);
  const startMs = performance.now();
  const perSecond = await load.run(seconds);
  const ranSec = (performance.now() - startMs) / 1000;
  const serverNs = cpuNanoseconds(server.pid) - serverBefore;
  const ownNs = cpuNanoseconds(process.pid) - ownBefore;
  return {
    perSecond,
    cpuMicroseconds: serverNs / 1000 / (perSecond * ranSec),
    serverShare: serverNs / 1e9 / ranSec,
    generatorShare: ownNs / 1e9 / ranSec,
  };
}

/** Prints what `compare` found. */
export function print(row: BenchRow, found: readonly Comparison[]): void {
  say(`\n${row.name}: ${row.title} (goal ${row.goal.toFixed(2)})`);
  for (const { server, samples, cpuRatios, rateRatios } of found) {
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
        `requests/s ${median(rateRatios).toFixed(3)}`,
      );
    }
    say("  " + columns.join("  "));
  }
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
