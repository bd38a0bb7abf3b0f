/**
 * Rows of a database: hits, misses and writes beside a server without `--db` and the database alone; and at nodes,
 * beside a server without `--origin` and the origin.
 */
import { Client } from "../support/servers/server_process.ts";
import {
  type BareDatabase,
  type LoadFigures,
  loadFigures,
  openPostgres,
  openSqlite,
} from "./base/bare_databases.ts";
import { ClientThreads } from "./base/clients.ts";
import type { Schedule } from "./base/generator.ts";
import { type Cell, Comparison, type Contestant, ranged, typical } from "./base/measure.ts";
import { CheckoutWithout, ROW_MECHANISMS } from "./base/mechanisms.ts";
import { readOptions, someOf } from "../support/options.ts";
import { ALL_CORES, type BenchServer, connectWhenOpen, Servers } from "./base/servers.ts";

/** Rows that are read and written. */
export const KEYS = 10_000;
export const CLIENTS = 64;
/** The variables that the driver of PostgreSQL reads. */
const VARIABLES = "PG*,USERNAME,USER,LOGNAME";

const DEFAULTS = {
  seconds: 3,
  rounds: 5,
  databases: someOf(["sqlite", "postgres"]),
  parts: someOf(["hit", "miss", "herd", "one", "many"]),
  folder: ".",
};

type Load = Contestant<keyof LoadFigures>;
type Measured = () => Promise<LoadFigures>;
/** A load of a server with rows, and those that it is compared with in the same round. */
type Compared = readonly [ours: Measured, ...theirs: (readonly [name: string, Measured])[]];

export async function rows(args: readonly string[]): Promise<void> {
  const options = readOptions(args, {
    ...DEFAULTS,
    /** Mechanisms: a server of ours without each is compared too, before a database of its own. */
    without: someOf(Object.keys(ROW_MECHANISMS), []),
  });
  const { seconds, databases } = options;
  await using servers = new Servers(1, ALL_CORES);
  const place = await servers.folder(options.folder);
  const bare = loadsOf(await startOrigin(servers, place), seconds);
  for (const kind of databases) {
    await using database = await openDatabase(kind, place);
    const alone = (clients: number) =>
      ["the database alone", () => database.writes(clients, seconds)] as const;
    await using server = await startOrigin(servers, place, ["--db", database.url]);
    const own = loadsOf(server, seconds);
    await using others = new AsyncDisposableStack();
    const without: (readonly [name: string, loads: ReturnType<typeof loadsOf>])[] = [];
    for (const mechanism of options.without) {
      const { folder } = others.use(new CheckoutWithout(mechanism));
      const next = await servers.folder(options.folder);
      const another = others.use(await openDatabase(kind, next));
      const started = await startOrigin(servers, next, ["--db", another.url], folder);
      without.push([`without ${mechanism}`, loadsOf(others.use(started), seconds)]);
    }
    for (const each of [own, bare, ...without.map(([, loads]) => loads)]) await each.fill();
    const alike = (of: (loads: typeof own) => Promise<LoadFigures>) =>
      without.map(([name, loads]) => [name, () => of(loads)] as const);
    await compareAll(database.name, {
      hit: [own.hits, ["without --db", bare.hits]],
      miss: [
        own.misses,
        ["a hit without --db", () => bare.gets(1)],
        ["a read of the database alone", () => database.reads(seconds)],
        ...alike((loads) => loads.misses()),
      ],
      herd: [() => own.reads(CLIENTS), ...alike((loads) => loads.reads(CLIENTS))],
      one: [() => own.writes(1), ["a round trip", () => bare.writes(1)], alone(1)],
      many: [
        () => own.writes(CLIENTS),
        alone(CLIENTS),
        [
          `one connection, ${CLIENTS} rows a transaction`,
          () => database.groups(CLIENTS, seconds),
        ],
        ...alike((loads) => loads.writes(CLIENTS)),
      ],
    }, options);
  }
}

export async function nodes(args: readonly string[]): Promise<void> {
  const options = readOptions(args, { ...DEFAULTS, nodes: [1, 2, 4] });
  const { seconds, databases } = options;
  await using servers = new Servers(1, ALL_CORES);
  const place = await servers.folder(options.folder);
  const bare = loadsOf(await startOrigin(servers, place), seconds);
  for (const kind of databases) {
    await using database = await openDatabase(kind, place);
    for (const count of options.nodes) {
      await using cluster = new Servers(1, ALL_CORES);
      const first = await startOrigin(cluster, place, ["--db", database.url]);
      const started = await startNodes(cluster, place, first, count);
      const [node, origin] = [started[0]!, first].map((each) => loadsOf(each, seconds));
      for (const each of [origin!, bare]) await each.fill();
      // A server without rows: its replies to one client are the time of a round trip.
      const trip = ["a round trip", () => bare.gets(1)] as const;
      await compareAll(`${database.name}, nodes: ${count}`, {
        hit: [node!.hits, ["without --origin", bare.hits]],
        miss: [node!.misses, ["the origin", origin!.misses], trip],
        one: [
          () => node!.writes(1),
          ["the origin", () => origin!.writes(1)],
          ["a round trip", () => bare.writes(1)],
        ],
        many: [() => node!.writes(CLIENTS), ["the origin", () => origin!.writes(CLIENTS)]],
      }, options);
    }
  }
}

async function openDatabase(kind: string, place: string): Promise<BareDatabase> {
  return kind === "sqlite" ? openSqlite(place, KEYS) : await openPostgres(place, KEYS);
}

/** Starts a server for rows. @param folder The folder that it may read and write. */
export function startOrigin(
  servers: Servers,
  folder: string,
  options: readonly string[] = [],
  checkout?: string,
): Promise<BenchServer> {
  const permissions = [
    "--lock=lib/databases/postgres/deno.lock",
    `--allow-read=${folder}`,
    `--allow-write=${folder}`,
    `--allow-env=${VARIABLES}`,
  ];
  return servers.leased("native", options, {
    permissions,
    ...(checkout === undefined ? {} : { checkout }),
  });
}

export async function startNodes(
  servers: Servers,
  folder: string,
  origin: BenchServer,
  count: number,
): Promise<BenchServer[]> {
  const nodes: BenchServer[] = [];
  for (let at = 0; at < count; at++) {
    const options = ["--origin", `127.0.0.1:${origin.port}`, "--node-name", `node-${at}`];
    nodes.push(await startOrigin(servers, folder, options));
  }
  return nodes;
}

/** The loads of one server. */
// deno-lint-ignore explicit-function-return-type
export function loadsOf({ port }: BenchServer, seconds: number) {
  const run = async (
    each: "get" | "set",
    connections: number,
    schedule: Partial<Schedule> = {},
  ): Promise<LoadFigures> => {
    await using clients = await ClientThreads.open(port, { each, keys: KEYS }, { connections });
    const ran = await clients.run({ seconds, timed: true, ...schedule });
    return loadFigures(ran.count / ran.seconds, ran.latenciesMs);
  };
  const once = { seconds: Infinity, requests: KEYS };
  const missed = async (connections: number): Promise<LoadFigures> => {
    using client = new Client(await connectWhenOpen(port));
    await client.ask("flush_all\r\n", "OK\r\n");
    return await run("get", connections, { requests: KEYS });
  };
  return {
    /** Stores all rows: the other loads read them. */
    async fill(): Promise<void> {
      await run("set", CLIENTS, once);
    },
    /** Gets of cached rows. */
    async hits(): Promise<LoadFigures> {
      await run("get", CLIENTS, once);
      return await run("get", CLIENTS);
    },
    /** Gets of rows that are not cached, by one client. */
    misses: () => missed(1),
    /** Gets of rows that are not cached, by many clients. */
    reads: (connections: number) => missed(connections),
    gets: (connections: number) => run("get", connections),
    writes: (connections: number) => run("set", connections),
  };
}

/** @param compare Ours and theirs of a round. */
function compared(
  compare: (own: LoadFigures, others: readonly LoadFigures[]) => number,
): Cell<keyof LoadFigures> {
  return (own, [first, ...others]) =>
    own !== first
      ? ""
      : ranged(own.map((each, round) => compare(each, others.map((rounds) => rounds[round]!))));
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value);

/** Compares the loads that `parts` names. */
export async function compareAll(
  title: string,
  loads: Readonly<Record<string, Compared>>,
  { parts, rounds }: { readonly parts: readonly string[]; readonly rounds: number },
): Promise<void> {
  const table = new Comparison(title, {
    "p50, ms": typical("p50", 3),
    "p99, ms": typical("p99", 2),
    "per second": typical("perSecond"),
    "p50 ÷ sum of theirs": compared((own, all) => own.p50 / sum(all.map(({ p50 }) => p50))),
    // Of loads that follow each other, the times of requests add up.
    "per second ÷ theirs": compared((own, all) =>
      own.perSecond * sum(all.map(({ perSecond }) => 1 / perSecond))
    ),
  });
  for (const part of parts.filter((each) => each in loads)) {
    const [measure, ...theirs] = loads[part]!;
    const rivals = theirs.map(([name, measure]): Load => ({ name: `${part}: ${name}`, measure }));
    await table.add([{ name: `${part}: ours`, measure }, ...rivals], rounds);
  }
}
