/**
 * The cost of durable update tokens: pairs of `token get` and `token release` a second, beside the syncs a second that
 * the same disk does bare, and the latency of get and set of other keys beside them.
 */
import { OpenGenerator, type Request } from "../open_generator.ts";
import { readOptions } from "../options.ts";
import { pinGenerator, say, startLeased } from "../processes.ts";
import { median, seededRandom } from "../rows.ts";
import type { SecondLoad } from "./second_load.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";

/** Clients that do nothing but take and release tokens. */
const TOKEN_CONNECTIONS = [1, 8, 64];
/** Bytes of a frame with one token. */
const FRAME_BYTES = 90;
const KEYS = 10_000;
const READERS = 50;
/** Cores of the server, of the clients whose latency is measured, and of the load beside them. */
const SERVER_CORES = "0,1";
const GENERATOR_CORE = 2;
const SECOND_CORE = 3;
/** Time from the start of the load's thread to its full pace. */
const START_MS = 500;
const ENCODER = new TextEncoder();

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, threads, rate, connections, port, folder } = readOptions(args, {
    seconds: 3,
    rounds: 5,
    io: "native",
    threads: 2,
    rate: 5000,
    connections: 8,
    port: 21330,
    folder: "",
  }, { io: TRANSPORTS });
  const parent = folder === "" ? Deno.cwd() : folder;
  const state = await Deno.makeTempDir({ dir: parent, prefix: "leased-bench-" });
  await pinGenerator(`${GENERATOR_CORE}`);
  const server = await startLeased(port, threads, io, ["--state-dir", state], [
    `--allow-read=${state}`,
    `--allow-write=${state}`,
  ], SERVER_CORES);
  try {
    for (const count of TOKEN_CONNECTIONS) {
      await compareWithDisk(state, port, count, seconds, rounds);
    }
    await latencies(port, connections, rate, seconds, rounds);
  } finally {
    await server.stop();
    await Deno.remove(state, { recursive: true });
  }
}

/** Pairs and bare syncs in turns, because a disk's pace changes. */
async function compareWithDisk(
  state: string,
  port: number,
  connections: number,
  seconds: number,
  rounds: number,
): Promise<void> {
  const pairs: number[] = [];
  const syncs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    syncs.push(syncsPerSecond(`${state}/bare`, seconds / 3));
    pairs.push(await secondLoad({ port, connections, seconds, sets: 0 }) / 2);
  }
  const ratio = median(pairs.map((count, round) => count / syncs[round]!));
  say(
    `${String(connections).padStart(2)} connections: ${whole(median(pairs))} pairs/s, ` +
      `bare syncs ${whole(median(syncs))}/s, pairs per sync ${ratio.toFixed(2)}`,
  );
}

/** Appends of the length of a token's frame, each synced. */
function syncsPerSecond(path: string, seconds: number): number {
  using file = Deno.openSync(path, { write: true, create: true, truncate: true });
  const frame = new Uint8Array(FRAME_BYTES).fill(1);
  const startMs = performance.now();
  let count = 0;
  for (; performance.now() - startMs < seconds * 1000; count++) {
    file.writeSync(frame);
    file.syncDataSync();
  }
  return count / ((performance.now() - startMs) / 1000);
}

/** Clients in a thread with a core of its own. @returns Requests a second. */
function secondLoad(load: Omit<SecondLoad, "core">): Promise<number> {
  const worker = new Worker(new URL("./second_load.ts", import.meta.url), { type: "module" });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage({ core: SECOND_CORE, ...load });
  return promise;
}

/** Latency of get and set alone, beside tokens, and beside as many sets a second in place of the tokens. */
async function latencies(
  port: number,
  connections: number,
  rate: number,
  seconds: number,
  rounds: number,
): Promise<void> {
  const generator = new OpenGenerator(port, READERS);
  const requests = mix();
  generator.runClosed(requests, requests.length);
  const alone: Latency[] = [];
  const tokens: Latency[] = [];
  const sets: Latency[] = [];
  const measure = (): Latency => latencyOf(generator.run(requests, rate, seconds).latenciesMs);
  const beside = async (sets: number, into: Latency[]): Promise<number> => {
    const load = secondLoad({ port, connections, seconds: seconds + 1, sets });
    await new Promise((resolve) => setTimeout(resolve, START_MS));
    into.push(measure());
    return await load;
  };
  const paces: number[] = [];
  for (let round = 0; round < rounds; round++) {
    alone.push(measure());
    const pace = await beside(0, tokens);
    paces.push(pace);
    await beside(Math.round(pace), sets);
  }
  generator.close();
  say(`get and set, ${whole(rate)} requests/s; beside them ${whole(median(paces))} requests/s`);
  for (const [name, of] of [["alone", alone], ["tokens", tokens], ["sets", sets]] as const) {
    const ratio = median(of.map(({ p99 }, round) => p99 / alone[round]!.p99));
    say(
      `  ${name.padEnd(6)} median ${median(of.map(({ p50 }) => p50)).toFixed(3)} ms, ` +
        `p99 ${median(of.map(({ p99 }) => p99)).toFixed(3)} ms, ratio ${ratio.toFixed(2)}`,
    );
  }
}

/** 80 % get, 20 % set. */
function mix(): Request[] {
  const random = seededRandom(1);
  return Array.from({ length: KEYS }, () => {
    const key = `key:${random(KEYS)}`;
    return ENCODER.encode(
      random(5) > 0 ? `get ${key}\r\n` : `set ${key} 0 0 100\r\n${"v".repeat(100)}\r\n`,
    );
  });
}

interface Latency {
  readonly p50: number;
  readonly p99: number;
}

function latencyOf(sorted: Float64Array): Latency {
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)]!;
  return { p50: at(0.5), p99: at(0.99) };
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
