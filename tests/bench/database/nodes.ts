/** Nodes of an origin: hits, misses and writes at a node beside a server without `--origin` and the origin. */
import { readOptions } from "../options.ts";
import { type BenchServer, say } from "../processes.ts";
import {
  benchFolder,
  CLIENTS,
  compareAll,
  type Comparison,
  type Loads,
  loadsOf,
  openDatabase,
  start,
} from "./run.ts";

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, port, databases, nodes, parts, folder } = readOptions(args, {
    seconds: 3,
    rounds: 5,
    port: 21360,
    databases: ["sqlite", "postgres"],
    nodes: [1, 2, 4],
    parts: ["hit", "miss", "one", "many"],
    folder: ".",
  }, { databases: ["sqlite", "postgres"], parts: ["hit", "miss", "one", "many"] });
  await using stack = new AsyncDisposableStack();
  const place = await benchFolder(folder, stack);
  const bare = stack.use(await start(port + 1, place));
  for (const kind of databases) {
    await using database = await openDatabase(kind, place);
    for (const count of nodes) {
      await using cluster = new AsyncDisposableStack();
      const origin = cluster.use(await start(port, place, ["--db", database.url]));
      const started: BenchServer[] = [];
      for (let at = 0; at < count; at++) {
        const options = ["--origin", `127.0.0.1:${port}`, "--node-name", `node-${at}`];
        started.push(cluster.use(await start(port + 2 + at, place, options)));
      }
      say(`\n${database.name}, nodes: ${count}`);
      const loads = [started[0]!, origin, bare].map((each) => loadsOf(each.port, seconds));
      for (const each of loads.slice(1)) await each.fill();
      await compareAll(comparisons(loads[0]!, loads[1]!, loads[2]!), parts, rounds);
    }
  }
}

/** @param bare A server without rows: its replies to one client are the time of a round trip. */
function comparisons(node: Loads, origin: Loads, bare: Loads): Comparison[] {
  const writes = (of: Loads, clients: number) => (): ReturnType<Loads["hits"]> =>
    of.writes(clients);
  // deno-fmt-ignore
  return [
    ["hit", "p50Ms", "≤ 1.02", node.hits, bare.hits],
    ["miss", "p50Ms", "≤ 1", node.misses, origin.misses, () => bare.gets(1)],
    ["one writer", "p50Ms", "≤ 1", writes(node, 1), writes(origin, 1), writes(bare, 1)],
    [`many writers: ${CLIENTS}`, "perSecond", "", writes(node, CLIENTS), writes(origin, CLIENTS)],
  ];
}
