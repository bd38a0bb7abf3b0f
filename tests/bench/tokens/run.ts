/**
 * The cost of durable update tokens: pairs of `token get` and `token release` a second, beside the syncs a second that
 * the same disk does bare, and the latency of get and set of other keys beside them.
 *
 *     deno task bench:tokens [--help]
 */
import { OpenGenerator, type Request } from "../open_generator.ts";
import { readOptions } from "../options.ts";
import { pinGenerator, say, startLeased } from "../processes.ts";
import { median, seededRandom } from "../rows.ts";
import type { TokenLoad } from "./token_pairs.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";

/** Clients that do nothing but take and release tokens. */
const TOKEN_CONNECTIONS = [1, 8, 64];
/** Bytes of a frame with one token. */
const FRAME_BYTES = 90;
const KEYS = 10_000;
const READERS = 50;
const ENCODER = new TextEncoder();

if (import.meta.main) await main();

async function main(): Promise<void> {
  const { seconds, rounds, io, threads, rate, connections, port, folder } = readOptions({
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
  await pinGenerator();
  const server = await startLeased(port, threads, io, ["--state-dir", state], [
    `--allow-read=${state}`,
    `--allow-write=${state}`,
  ]);
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
    pairs.push(await tokenLoad(port, connections, seconds));
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

/** Clients in a thread of their own. @returns Pairs a second. */
function tokenLoad(port: number, connections: number, seconds: number): Promise<number> {
  const worker = new Worker(new URL("./token_pairs.ts", import.meta.url), { type: "module" });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
  const load: TokenLoad = { port, connections, seconds };
  worker.postMessage(load);
  return promise;
}

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
  const without: number[] = [];
  const beside: number[] = [];
  for (let round = 0; round < rounds; round++) {
    without.push(p99(generator.run(requests, rate, seconds).latenciesMs));
    const load = tokenLoad(port, connections, seconds + 1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    beside.push(p99(generator.run(requests, rate, seconds).latenciesMs));
    await load;
  }
  generator.close();
  const ratio = median(beside.map((ms, round) => ms / without[round]!));
  say(
    `get and set, ${whole(rate)} requests/s: p99 ${median(without).toFixed(3)} ms, beside ` +
      `${connections} connections with tokens ${median(beside).toFixed(3)} ms, ratio ${
        ratio.toFixed(2)
      }`,
  );
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

function p99(sorted: Float64Array): number {
  return sorted[Math.floor(sorted.length * 0.99)]!;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
