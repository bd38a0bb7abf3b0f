/** Durable update tokens: pairs of `token get` and `token release` a second, beside the bare syncs of the same disk. */
import { readOptions } from "../options.ts";
import { pinGenerator, say, startLeased } from "../processes.ts";
import { median } from "../rows.ts";
import type { TokenLoad } from "./worker.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";

/** Clients that do nothing but take and release tokens. */
const TOKEN_CONNECTIONS = [1, 8, 64];
/** Bytes of a frame with one token. */
const FRAME_BYTES = 90;
/** Cores of the server, and of its clients. */
const SERVER_CORES = "0,1";
const CLIENTS_CORE = Math.min(3, navigator.hardwareConcurrency - 1);

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, threads, port, folder } = readOptions(args, {
    seconds: 3,
    rounds: 5,
    io: "native",
    threads: 2,
    port: 21330,
    folder: "",
  }, { io: TRANSPORTS });
  const parent = folder === "" ? Deno.cwd() : folder;
  const state = await Deno.makeTempDir({ dir: parent, prefix: "leased-bench-" });
  await pinGenerator(`${CLIENTS_CORE}`);
  const server = await startLeased(port, threads, io, ["--state-dir", state], [
    `--allow-read=${state}`,
    `--allow-write=${state}`,
  ], SERVER_CORES);
  try {
    for (const count of TOKEN_CONNECTIONS) {
      await compareWithDisk(state, port, count, seconds, rounds);
    }
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
    pairs.push(await tokenLoad({ port, connections, seconds }) / 2);
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
function tokenLoad(load: Omit<TokenLoad, "core">): Promise<number> {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage({ core: CLIENTS_CORE, ...load });
  return promise;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
