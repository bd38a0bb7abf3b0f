/** Durable update tokens: pairs of `token get` and `token release` a second, beside the bare syncs of the same disk. */
import { ClientThreads } from "./base/clients.ts";
import { Comparison, spread, typical } from "./base/measure.ts";
import { readOptions } from "../support/options.ts";
import { IO, Servers } from "./base/servers.ts";

/** Clients that do nothing but take and release tokens. */
const CONNECTIONS = [1, 8, 64];
/** Bytes of a frame with one token. */
const FRAME_BYTES = 90;

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, folder } = readOptions(args, {
    seconds: 3,
    rounds: 5,
    io: IO,
    /** The state's; by default the current one. */
    folder: ".",
  });
  await using servers = new Servers(2);
  const state = await servers.folder(folder);
  await servers.pinClients();
  const permissions = [`--allow-read=${state}`, `--allow-write=${state}`];
  const { port } = await servers.leased(io, ["--state-dir", state], { permissions });
  const table = new Comparison("connections", {
    "pairs/s": typical("pairs"),
    "bare syncs/s": typical("syncs"),
    "pairs per sync": spread("perSync"),
  });
  for (const connections of CONNECTIONS) {
    await using clients = await ClientThreads.open(port, "tokens", { connections });
    // One after the other in each round, because a disk's pace changes.
    const measure = async () => {
      const syncs = syncsPerSecond(`${state}/bare`, seconds / 3);
      const result = await clients.run({ seconds });
      const pairs = result.count / result.seconds / 2;
      return { pairs, syncs, perSync: pairs / syncs };
    };
    await table.add([{ name: `${connections}`, measure }], rounds);
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
