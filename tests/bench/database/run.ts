/** Rows of a database: hits, misses and writes beside a server without `--db` and the database alone. */
import { Workers } from "../clients/workers.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, say, startLeased } from "../processes.ts";
import { median } from "../rows.ts";
import { ranged, Table, whole } from "../table.ts";
import { type BareDatabase, openPostgres, openSqlite } from "./bare.ts";
import type { ClosedLoad, LoadResult } from "./closed_load.ts";

/** Rows that are read and written. */
export const KEYS = 10_000;
export const CLIENTS = 64;
const FIGURES = ["p50, ms", "p99, ms", "per second"];
/** What the driver of PostgreSQL reads. */
const VARIABLES = "PG*,USERNAME,USER,LOGNAME";

/** A table's row: a load of a server with rows, and what it is compared with in the same round. */
export interface Comparison {
  readonly name: string;
  /** `perSecond`: ours ÷ theirs; `p50Ms`: the time of ours ÷ the sum of theirs. */
  readonly by: "perSecond" | "p50Ms";
  readonly goal: string;
  ours(): Promise<LoadResult>;
  readonly theirs: readonly (() => Promise<LoadResult>)[];
}

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

/** What the clients ask of one server. */
export type Loads = ReturnType<typeof loadsOf>;

// deno-lint-ignore explicit-function-return-type
export function loadsOf(port: number, seconds: number) {
  const run = (of: Partial<ClosedLoad>): Promise<LoadResult> =>
    runLoad({
      port,
      connections: CLIENTS,
      seconds,
      command: "get",
      keys: KEYS,
      isOnce: false,
      ...of,
    });
  return {
    /** Gets of cached rows. */
    async hits(): Promise<LoadResult> {
      await run({ command: "set", isOnce: true, seconds: Infinity });
      await run({ isOnce: true, seconds: Infinity });
      return await run({});
    },
    /** Gets of rows that are not cached, by one client. */
    async misses(): Promise<LoadResult> {
      await flush(port);
      return await run({ connections: 1, isOnce: true });
    },
    gets: (connections: number) => run({ connections }),
    writes: (connections: number) => run({ connections, command: "set" }),
  };
}

function comparisons(
  own: Loads,
  bare: Loads,
  database: BareDatabase,
  seconds: number,
): Comparison[] {
  const isSqlite = database.name === "SQLite";
  return [
    {
      name: "hit",
      by: "p50Ms",
      goal: "≤ 1.02",
      ours: () => own.hits(),
      theirs: [() => bare.hits()],
    },
    {
      name: "miss",
      by: "p50Ms",
      goal: "≤ 1.3",
      ours: () => own.misses(),
      theirs: [() => bare.gets(1), () => database.reads(seconds)],
    },
    {
      name: "one writer",
      by: "perSecond",
      goal: "≥ 0.6",
      ours: () => own.writes(1),
      theirs: [() => database.writes(1, seconds)],
    },
    {
      name: `many writers: ${CLIENTS}`,
      by: "perSecond",
      goal: isSqlite ? "≥ 5" : "≥ 1.0",
      ours: () => own.writes(CLIENTS),
      theirs: [() => database.writes(CLIENTS, seconds)],
    },
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
    if (parts.includes(one.name.split(" ")[0]!)) await compare(one, rounds, table);
  }
}

async function compare(
  { name, by, goal, ours, theirs }: Comparison,
  rounds: number,
  table: Table,
): Promise<void> {
  const own: LoadResult[] = [];
  const others: LoadResult[][] = theirs.map(() => []);
  for (let round = 0; round < rounds; round++) {
    own.push(await ours());
    for (const [at, run] of theirs.entries()) others[at]!.push(await run());
  }
  const ratios = own.map((result, round) =>
    result[by] / others.reduce((sum, results) => sum + results[round]![by], 0)
  );
  const beside = others.map((results) => figuresOf(results).join(", ")).join("; ");
  table.row(name, ranged(ratios), goal, ...figuresOf(own), beside);
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

/** Runs a load in a thread of its own. */
async function runLoad(load: ClosedLoad): Promise<LoadResult> {
  const workers = new Workers<ClosedLoad>(new URL("./closed_load.ts", import.meta.url), 1);
  try {
    return (await workers.ask<LoadResult>(() => load))[0]!;
  } finally {
    workers.close();
  }
}
