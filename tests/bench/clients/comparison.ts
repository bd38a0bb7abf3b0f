/** Measures servers under the same load, in alternating rounds: requests per second and CPU per request. */
import process from "node:process";
import { Batches, Generator } from "../generator.ts";
import { type BenchServer, cpuNanoseconds, say } from "../processes.ts";
import { checkReply, median, preload } from "../rows.ts";
import { alternate, ranged, ratios, Table, whole } from "../table.ts";
import { type ClientOptions, ClientThreads } from "./threads.ts";
import type { LoadName } from "./loads.ts";

const WARM_UP_SEC = 1;

/** One server under one load for one round. */
export interface Sample {
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
  /** The part of one core that the server, or the generator, was busy: 0..1. */
  readonly serverShare: number;
  readonly generatorShare: number;
}

/** Keeps a server busy. */
export interface Load {
  /** Returns the number of requests, or what is counted instead. */
  run(seconds: number): number | Promise<number>;
  close?(): Promise<void>;
}

/** A server and the load it is measured with. */
export interface Contestant {
  readonly name: string;
  readonly server: BenchServer;
  open(): Promise<Load>;
}

/** A load of client threads. */
export async function threadLoad(
  server: BenchServer,
  load: LoadName,
  options: ClientOptions,
): Promise<Load> {
  const threads = await ClientThreads.open(server.port, load, options);
  return {
    run: async (seconds) => (await threads.run({ seconds, perSecond: 0 })).count,
    close: () => threads.close(),
  };
}

/** Stores the keys of all rows. */
export function fill(server: BenchServer, tls = false): void {
  const batches = preload();
  const generator = new Generator(server.port, 1, new Batches(batches), tls);
  generator.verify(batches, checkReply(batches));
  generator.close();
}

/**
 * Measures all contestants and prints a table, in which the first is compared with each of the
 * others.
 *
 * @param unit What loads count, in the singular.
 */
export async function compare(
  title: string,
  unit: string,
  contestants: readonly Contestant[],
  rounds: number,
  seconds: number,
): Promise<Sample[][]> {
  const loads: { server: BenchServer; load: Load }[] = [];
  for (const { server, open } of contestants) {
    const load = await open();
    await load.run(WARM_UP_SEC);
    loads.push({ server, load });
  }
  const samples = await alternate(
    loads,
    rounds,
    ({ server, load }) => measure(load, server, seconds),
  );
  for (const { load } of loads) await load.close?.();
  print(title, unit, contestants.map(({ name }) => name), samples);
  return samples;
}

async function measure(load: Load, server: BenchServer, seconds: number): Promise<Sample> {
  const serverBefore = cpuNanoseconds(server.pid);
  const ownBefore = cpuNanoseconds(process.pid);
  const startMs = performance.now();
  const count = await load.run(seconds);
  const ranSec = (performance.now() - startMs) / 1000;
  const serverNs = cpuNanoseconds(server.pid) - serverBefore;
  const ownNs = cpuNanoseconds(process.pid) - ownBefore;
  return {
    perSecond: count / ranSec,
    cpuMicroseconds: serverNs / 1000 / count,
    serverShare: serverNs / 1e9 / ranSec,
    generatorShare: ownNs / 1e9 / ranSec,
  };
}

function print(
  title: string,
  unit: string,
  names: readonly string[],
  samples: readonly (readonly Sample[])[],
): void {
  say(`\n${title}`);
  const heads = [`${unit}s/s`, `µs CPU/${unit}`, "server", "generator"];
  const table = new Table("", ...heads, "CPU, ours ÷ theirs", `${unit}s/s, ours ÷ theirs`);
  const of = (server: number, figure: keyof Sample): number[] =>
    samples[server]!.map((sample) => sample[figure]);
  const percent = (server: number, figure: keyof Sample): string =>
    `${Math.round(median(of(server, figure)) * 100)} %`;
  for (const [server, name] of names.entries()) {
    const ratio = (figure: keyof Sample): string =>
      server === 0 ? "" : ranged(ratios(of(0, figure), of(server, figure)));
    table.row(
      name,
      whole(of(server, "perSecond")),
      median(of(server, "cpuMicroseconds")).toFixed(3),
      percent(server, "serverShare"),
      percent(server, "generatorShare"),
      ratio("cpuMicroseconds"),
      ratio("perSecond"),
    );
  }
}
