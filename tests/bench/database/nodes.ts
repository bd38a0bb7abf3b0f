/** Nodes of an origin: hits, misses and writes at a node beside a server without `--origin` and the origin. */
import { readOptions } from "../options.ts";
import { type BenchServer, say } from "../processes.ts";
import { Table } from "../table.ts";
import { openPostgres, openSqlite } from "./bare.ts";
import type { ClosedLoad, LoadResult } from "./closed_load.ts";
import { CLIENTS, compare, type Comparison, FIGURES, flush, KEYS, runLoad, start } from "./run.ts";

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
  const place = await Deno.makeTempDir({ dir: Deno.realPathSync(folder), prefix: "leased-bench-" });
  await Deno.chmod(place, 0o755);
  stack.defer(() => Deno.remove(place, { recursive: true }));
  const bare = stack.use(await start(port + 1, place));
  for (const kind of databases) {
    await using database = kind === "sqlite"
      ? openSqlite(place, KEYS)
      : await openPostgres(place, KEYS);
    for (const count of nodes) {
      await using cluster = new AsyncDisposableStack();
      const origin = cluster.use(await start(port, place, ["--db", database.url]));
      const started: BenchServer[] = [];
      for (let at = 0; at < count; at++) {
        const options = ["--origin", `127.0.0.1:${port}`, "--node-name", `node-${at}`];
        started.push(cluster.use(await start(port + 2 + at, place, options)));
      }
      say(`\n${database.name}, nodes: ${count}`);
      const table = new Table("load", "ratio", "goal", ...FIGURES, "beside: " + FIGURES.join(", "));
      for (const one of comparisons(started[0]!, origin, bare, seconds)) {
        if (parts.includes(one.name.split(" ")[0]!)) await compare(one, rounds, table);
      }
    }
  }
}

/** @param bare A server without rows: its replies to one client are the time of a round trip. */
function comparisons(
  node: BenchServer,
  origin: BenchServer,
  bare: BenchServer,
  seconds: number,
): Comparison[] {
  const load = ({ port }: BenchServer, of: Partial<ClosedLoad>): Promise<LoadResult> =>
    runLoad({
      port,
      connections: CLIENTS,
      seconds,
      command: "get",
      keys: KEYS,
      isOnce: false,
      ...of,
    });
  const fill = async (server: BenchServer): Promise<void> => {
    await load(server, { command: "set", isOnce: true, seconds: Infinity });
    await load(server, { isOnce: true, seconds: Infinity });
  };
  const miss = async (server: BenchServer): Promise<LoadResult> => {
    await flush(server.port);
    return await load(server, { connections: 1, isOnce: true });
  };
  const write = (server: BenchServer): Promise<LoadResult> =>
    load(server, { connections: 1, command: "set" });
  return [
    {
      name: "hit",
      by: "p50Ms",
      goal: "≤ 1.02",
      ours: async () => (await fill(node), await load(node, {})),
      theirs: [async () => (await fill(bare), await load(bare, {}))],
    },
    {
      name: "miss",
      by: "p50Ms",
      goal: "≤ 1",
      ours: () => miss(node),
      theirs: [() => miss(origin), () => load(bare, { connections: 1 })],
    },
    {
      name: "one writer",
      by: "p50Ms",
      goal: "≤ 1",
      ours: () => write(node),
      theirs: [() => write(origin), () => write(bare)],
    },
    {
      name: `many writers: ${CLIENTS}`,
      by: "perSecond",
      goal: "",
      ours: () => load(node, { command: "set" }),
      theirs: [() => load(origin, { command: "set" })],
    },
  ];
}
