/** Durable update tokens: pairs of `token get` and `token release` a second, beside the bare syncs of the same disk. */
import { ClientThreads } from "./clients/threads.ts";
import { readOptions } from "./options.ts";
import { pinGenerator, startLeased } from "./processes.ts";
import { ranged, ratios, Table, whole } from "./table.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";

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
    /** The state's; by default the current one. */
    folder: ".",
  }, { io: TRANSPORTS });
  await using stack = new AsyncDisposableStack();
  const state = await Deno.makeTempDir({ dir: Deno.realPathSync(folder), prefix: "leased-bench-" });
  stack.defer(() => Deno.remove(state, { recursive: true }));
  await pinGenerator(`${CLIENTS_CORE}`);
  const permissions = [`--allow-read=${state}`, `--allow-write=${state}`];
  const options = ["--state-dir", state];
  stack.use(await startLeased(port, threads, io, options, permissions, SERVER_CORES));
  const table = new Table("connections", "pairs/s", "bare syncs/s", "pairs per sync");
  for (const count of TOKEN_CONNECTIONS) {
    const clients = await ClientThreads.open(port, "tokens", { count: 1, connections: count });
    const pairs: number[] = [];
    const syncs: number[] = [];
    // In turns, because a disk's pace changes.
    for (let round = 0; round < rounds; round++) {
      syncs.push(syncsPerSecond(`${state}/bare`, seconds / 3));
      const result = await clients.run({ seconds, perSecond: 0 });
      pairs.push(result.count / result.seconds / 2);
    }
    await clients.close();
    table.row(String(count), whole(pairs), whole(syncs), ranged(ratios(pairs, syncs)));
  }
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
