/**
 * The cost of the update-token proxy: reads beside a bare SQLite read and a bare get, writes by the number of caches
 * beside a bare commit, and writers before PostgreSQL beside bare updates by pgbench.
 */
import { PostgresServer } from "../../support/servers/postgres.ts";
import { startProxy } from "../../support/servers/proxy_process.ts";
import { ServerProcess } from "../../support/servers/server_process.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, say, startMemcached } from "../processes.ts";
import { median } from "../rows.ts";
import { type Exchange, latenciesUs, requestsPerSecond } from "./clients.ts";
import { bareCommitsPerSecond, bareReadUs, bareUpdatesPerSecond } from "./databases.ts";

const CACHES = [1, 2, 4];
const CLIENTS = [1, 8, 64];
/** Clients of the writes before SQLite. */
const SQLITE_CLIENTS = 8;
const ROWS = 2000;
const VALUE = "v".repeat(100);

/** The parts of the bench, for --only. */
const PARTS = ["reads", "sqlite", "postgres"];

const keyOf = (number: number): string => `row:${number % ROWS}`;
const setOf = (number: number): Exchange => ({
  request: `set ${keyOf(number)} 0 0 ${VALUE.length}\r\n${VALUE}\r\n`,
  end: "STORED\r\n",
});
/** Writes of keys that are far apart. */
const set = (number: number): Exchange => setOf(7 * number);
const read = (command: string) => (number: number): Exchange => ({
  request: `${command} ${keyOf(number)}\r\n`,
  end: `${VALUE}\r\nEND\r\n`,
});

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, only, memcached, port, folder } = readOptions(args, {
    seconds: 2,
    rounds: 5,
    only: PARTS,
    memcached: "",
    port: 21_340,
    folder: "",
  }, { only: PARTS });
  const parent = folder === "" ? Deno.cwd() : folder;
  const place = await Deno.makeTempDir({ dir: parent, prefix: "leased-bench-" });
  // PostgreSQL runs as a user of its own, and makes its folder in this one.
  await Deno.chmod(place, 0o755);
  try {
    if (only.includes("reads")) await reads(place, rounds, memcached, port);
    if (only.includes("sqlite")) await sqliteWrites(place, seconds, rounds);
    if (only.includes("postgres")) await postgresWrites(place, seconds, rounds);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
}

/** A proxy before a new SQLite file, with its caches. */
class Setting implements AsyncDisposable {
  readonly path: string;
  readonly caches: readonly ServerProcess[];
  readonly proxy: ServerProcess;

  private constructor(path: string, caches: readonly ServerProcess[], proxy: ServerProcess) {
    this.path = path;
    this.caches = caches;
    this.proxy = proxy;
  }

  static async start(place: string, cacheCount: number, url = ""): Promise<Setting> {
    const caches = [];
    for (let count = 0; count < cacheCount; count++) {
      caches.push(await ServerProcess.start({ io: "native", args: ["-t", "1", "-m", "256"] }));
    }
    const path = `${await Deno.makeTempDir({ dir: place })}/rows.db`;
    const database = url === "" ? { url: `sqlite:${path}`, folder: place } : { url, folder: "" };
    const proxy = await startProxy(database, caches.map(({ port }) => port));
    return new Setting(path, caches, proxy);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.proxy.stop();
    for (const cache of this.caches) await cache.stop();
  }
}

/** Latency of one client's reads: through the cache, from the database, and bare. */
async function reads(
  place: string,
  rounds: number,
  memcached: string,
  port: number,
): Promise<void> {
  await using setting = await Setting.start(place, 1);
  const { proxy, caches: [cache] } = setting;
  await latenciesUs(proxy.port, ROWS, setOf);
  let server: BenchServer | null = null;
  if (memcached !== "") {
    server = await startMemcached(memcached, port, 1);
    await latenciesUs(port, ROWS, setOf);
  }
  const results = new Map<string, number[]>();
  const note = (name: string, us: number): void => {
    results.set(name, [...results.get(name) ?? [], us]);
  };
  const measure = async (name: string, at: number, command: string): Promise<void> => {
    note(name, middle(await latenciesUs(at, ROWS, read(command))));
  };
  for (let round = 0; round < rounds; round++) {
    note("bare SQLite read, in process", bareReadUs(setting.path, ROWS, keyOf));
    await latenciesUs(cache!.port, 1, () => ({ request: "flush_all\r\n", end: "OK\r\n" }));
    await measure("get, miss: from the database, and filled", proxy.port, "get");
    await measure("get, hit: from the cache", proxy.port, "get");
    await measure("gets: from the database", proxy.port, "gets");
    await measure("uget: from the database", proxy.port, "uget");
    await measure("bare get of leased", cache!.port, "get");
    if (server !== null) await measure(`bare get of ${server.name}`, port, "get");
  }
  await server?.stop();
  for (const [name, us] of results) say(`${name}: ${median(us).toFixed(0)} µs`);
}

function middle(sorted: Float64Array): number {
  return sorted[sorted.length >> 1]!;
}

/** Writes before SQLite by the number of caches, in turns with bare commits to the same disk. */
async function sqliteWrites(place: string, seconds: number, rounds: number): Promise<void> {
  for (const count of CACHES) {
    await using setting = await Setting.start(place, count);
    const { proxy: { port } } = setting;
    const bare: number[] = [];
    const one: number[] = [];
    const many: number[] = [];
    for (let round = 0; round < rounds; round++) {
      bare.push(bareCommitsPerSecond(`${setting.path}.bare`, seconds, keyOf, VALUE));
      one.push(await requestsPerSecond(port, 1, seconds, set));
      many.push(await requestsPerSecond(port, SQLITE_CLIENTS, seconds, set));
    }
    say(
      `SQLite, ${count} caches: set by 1 client ${whole(median(one))}/s, by ${SQLITE_CLIENTS} ` +
        `${whole(median(many))}/s; bare commits ${whole(median(bare))}/s`,
    );
  }
}

/** Writers before PostgreSQL, in turns with bare updates by as many clients. */
async function postgresWrites(place: string, seconds: number, rounds: number): Promise<void> {
  const server = await PostgresServer.start({ folder: place, durable: true });
  try {
    const url = await server.createDatabase();
    await using setting = await Setting.start(place, 1, url);
    const { proxy: { port } } = setting;
    await latenciesUs(port, ROWS, setOf);
    for (const clients of CLIENTS) {
      const written: number[] = [];
      const bare: number[] = [];
      for (let round = 0; round < rounds; round++) {
        bare.push(await bareUpdatesPerSecond(server, url, place, clients, seconds, ROWS));
        written.push(await requestsPerSecond(port, clients, seconds, set));
      }
      say(
        `PostgreSQL, ${clients} clients: set ${whole(median(written))}/s; ` +
          `bare updates by pgbench ${whole(median(bare))}/s`,
      );
    }
  } finally {
    await server.stop();
  }
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
