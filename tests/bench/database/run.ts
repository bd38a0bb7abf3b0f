/** Rows of a database: hits, misses and writes beside a server without `--db` and the database alone. */
import { ClientThreads } from "../clients/threads.ts";
import type { Schedule } from "../generator.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, say, startLeased } from "../processes.ts";
import { median } from "../rows.ts";
import { alternate, ranged, Table, whole } from "../table.ts";
import {
  type BareDatabase,
  type LoadResult,
  loadResult,
  openPostgres,
  openSqlite,
} from "./bare.ts";

/** Rows that are read and written. */
export const KEYS = 10_000;
export const CLIENTS = 64;
const FIGURES = ["p50, ms", "p99, ms", "per second"];
/** What the driver of PostgreSQL reads. */
const VARIABLES = "PG*,USERNAME,USER,LOGNAME";

/** A table's row: a load of a server with rows, and those that it is compared with in the same round. */
export type Comparison = readonly [
  name: string,
  /** `perSecond`: ours ÷ theirs; `p50Ms`: the time of ours ÷ the sum of theirs. */
  by: "perSecond" | "p50Ms",
  goal: string,
  ours: () => Promise<LoadResult>,
  ...theirs: (() => Promise<LoadResult>)[],
];

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, port, databases, caches, parts, folder } = readOptions(args, {
    seconds: 3,
    rounds: 5,
    port: 21330,
    databases: ["sqlite", "postgres"],
    caches: [1, 4],
    parts: ["hit", "miss", "one", "many"],
    folder: ".",
  }, { databases: ["sqlite", "postgres"], parts: ["hit", "miss", "one", "many"] });
  await using stack = new AsyncDisposableStack();
  const place = await benchFolder(folder, stack);
  const listed = Array.from({ length: Math.max(...caches) }, (_, at) => port + 2 + at);
  for (const each of [port + 1, ...listed]) stack.use(await start(each, place));
  for (const kind of databases) {
    await using database = await openDatabase(kind, place);
    for (const count of caches) {
      const options = listed.slice(0, count).flatMap((each) => ["--cache", `127.0.0.1:${each}`]);
      await using server = await start(port, place, ["--db", database.url, ...options]);
      say(`\n${database.name}, listed caches: ${count}`);
      const own = loadsOf(server.port, seconds);
      const bare = loadsOf(port + 1, seconds);
      for (const each of [own, bare]) await each.fill();
      await compareAll(comparisons(own, bare, database, seconds), parts, rounds);
    }
  }
}

/** Makes a folder that goes away with the stack. */
export async function benchFolder(dir: string, stack: AsyncDisposableStack): Promise<string> {
  const place = await Deno.makeTempDir({ dir: Deno.realPathSync(dir), prefix: "leased-bench-" });
  await Deno.chmod(place, 0o755);
  stack.defer(() => Deno.remove(place, { recursive: true }));
  return place;
}

export async function openDatabase(kind: string, place: string): Promise<BareDatabase> {
  return kind === "sqlite" ? openSqlite(place, KEYS) : await openPostgres(place, KEYS);
}

/** @param folder What the server may read and write. */
export function start(
  port: number,
  folder: string,
  options: readonly string[] = [],
): Promise<BenchServer> {
  const permissions = [
    "--lock=lib/rows/databases/postgres/deno.lock",
    `--allow-read=${folder}`,
    `--allow-write=${folder}`,
    `--allow-env=${VARIABLES}`,
  ];
  const cores = `0-${navigator.hardwareConcurrency - 1}`;
  return startLeased(port, 1, "native", options, permissions, cores);
}

/** The loads of one server. */
export type Loads = ReturnType<typeof loadsOf>;

// deno-lint-ignore explicit-function-return-type
export function loadsOf(port: number, seconds: number) {
  const run = async (
    each: "get" | "set",
    connections: number,
    schedule: Partial<Schedule> = {},
  ): Promise<LoadResult> => {
    const load = { each, keys: KEYS };
    const clients = await ClientThreads.open(port, load, { count: 1, connections });
    const ran = await clients.run({ seconds, perSecond: 0, timed: true, ...schedule });
    await clients.close();
    return loadResult(ran.count / ran.seconds, ran.latenciesMs);
  };
  const once = { seconds: Infinity, requests: KEYS };
  return {
    /** Stores all rows: the other loads read them. */
    async fill(): Promise<void> {
      await run("set", CLIENTS, once);
    },
    /** Gets of cached rows. */
    async hits(): Promise<LoadResult> {
      await run("get", CLIENTS, once);
      return await run("get", CLIENTS);
    },
    /** Gets of rows that are not cached, by one client. */
    async misses(): Promise<LoadResult> {
      await flush(port);
      return await run("get", 1, { requests: KEYS });
    },
    gets: (connections: number) => run("get", connections),
    writes: (connections: number) => run("set", connections),
  };
}

function comparisons(
  own: Loads,
  bare: Loads,
  database: BareDatabase,
  seconds: number,
): Comparison[] {
  const many = database.name === "SQLite" ? "≥ 5" : "≥ 1.0";
  const writes = (clients: number) => (): Promise<LoadResult> => database.writes(clients, seconds);
  // deno-fmt-ignore
  return [
    ["hit", "p50Ms", "≤ 1.02", own.hits, bare.hits],
    ["miss", "p50Ms", "≤ 1.3", own.misses, () => bare.gets(1), () => database.reads(seconds)],
    ["one writer", "perSecond", "≥ 0.6", () => own.writes(1), writes(1)],
    [`many writers: ${CLIENTS}`, "perSecond", many, () => own.writes(CLIENTS), writes(CLIENTS)],
  ];
}

/** @param parts First words of the comparisons that are wanted. */
export async function compareAll(
  comparisons: readonly Comparison[],
  parts: readonly string[],
  rounds: number,
): Promise<void> {
  const table = new Table("load", "ratio", "goal", ...FIGURES, "beside: " + FIGURES.join(", "));
  for (const one of comparisons) {
    if (parts.includes(one[0].split(" ")[0]!)) await compare(one, rounds, table);
  }
}

async function compare(
  [name, by, goal, ...loads]: Comparison,
  rounds: number,
  table: Table,
): Promise<void> {
  const [own, ...others] = await alternate(loads, rounds, (load) => load());
  const ratios = own!.map((result, round) =>
    result[by] / others.reduce((sum, results) => sum + results[round]![by], 0)
  );
  const beside = others.map((results) => figuresOf(results).join(", ")).join("; ");
  table.row(name, ranged(ratios), goal, ...figuresOf(own!), beside);
}

/** The medians of p50, p99 and requests a second. */
function figuresOf(results: readonly LoadResult[]): string[] {
  return [
    median(results.map(({ p50Ms }) => p50Ms)).toFixed(3),
    median(results.map(({ p99Ms }) => p99Ms)).toFixed(2),
    whole(results.map(({ perSecond }) => perSecond)),
  ];
}

/** Empties a cache. */
async function flush(port: number): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(new TextEncoder().encode("flush_all\r\n"));
  await connection.read(new Uint8Array(64));
}
