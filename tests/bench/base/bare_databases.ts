/** The databases without a server in front of them: single reads and commits of rows as wide as a server's. */
import { DatabaseSync } from "node:sqlite";
import { PostgresServer } from "../../support/servers/postgres.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { type Figures, waits } from "./measure.ts";
import { keyText, VALUE } from "./rows.ts";

/** Quantiles are in milliseconds. */
export type LoadFigures = Figures<"perSecond" | "p50" | "p99">;

export function loadFigures(perSecond: number, latenciesMs: Iterable<number>): LoadFigures {
  return { perSecond, ...waits(latenciesMs) };
}

/** A database, and a table in it that nobody else uses. */
export interface BareDatabase extends AsyncDisposable {
  readonly name: string;
  /** For `--db`. */
  readonly url: string;
  /** Reads rows one after the other. */
  reads(seconds: number): Promise<LoadFigures>;
  /** Upserts rows, each in a transaction of its own. */
  writes(clients: number, seconds: number): Promise<LoadFigures>;
  /** Upserts rows by one connection, so many in a transaction: rows a second, and times of transactions. */
  groups(rows: number, seconds: number): Promise<LoadFigures>;
}

/** Names of columns as the servers' table has them. */
const COLUMNS = "key, flags, value, version";
const UPSERT = "ON CONFLICT (key) DO UPDATE SET flags = excluded.flags, value = excluded.value, " +
  "version = bare.version + 1";

/** A file in `folder`. Clients of one process take turns, so their number does not matter. */
export function openSqlite(folder: string, keys: number): BareDatabase {
  const bare = new DatabaseSync(`${folder}/bare.db`);
  bare.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  bare.exec(
    "CREATE TABLE bare (key BLOB PRIMARY KEY, flags INTEGER, value BLOB, version INTEGER)",
  );
  const read = bare.prepare(`SELECT ${COLUMNS} FROM bare WHERE key = ?`);
  const write = bare.prepare(`INSERT INTO bare (${COLUMNS}) VALUES (?, 0, ?, 1) ${UPSERT}`);
  const names = Array.from({ length: keys }, (_, at) => bytesOf(keyText(at)));
  const value = bytesOf(VALUE);
  bare.exec("BEGIN");
  for (const name of names) write.run(name, value);
  bare.exec("COMMIT");
  const any = (): Uint8Array => names[Math.floor(Math.random() * keys)]!;
  const measure = (seconds: number, act: () => void): Promise<LoadFigures> => {
    const latenciesMs: number[] = [];
    const startMs = performance.now();
    for (let nowMs = startMs; nowMs - startMs < seconds * 1000;) {
      act();
      const beforeMs = nowMs;
      nowMs = performance.now();
      latenciesMs.push(nowMs - beforeMs);
    }
    return Promise.resolve(loadFigures(latenciesMs.length / seconds, latenciesMs));
  };
  return {
    name: "SQLite",
    url: `sqlite:${folder}/rows.db`,
    reads: (seconds) => measure(seconds, () => void read.get(any())),
    writes: (_clients, seconds) => measure(seconds, () => void write.run(any(), value)),
    groups: async (rows, seconds) => {
      const figures = await measure(seconds, () => {
        bare.exec("BEGIN IMMEDIATE");
        for (let row = 0; row < rows; row++) write.run(any(), value);
        bare.exec("COMMIT");
      });
      return { ...figures, perSecond: figures.perSecond * rows };
    },
    [Symbol.asyncDispose]: () => Promise.resolve(bare.close()),
  };
}

/** A cluster of its own in `folder`, which syncs its commits; pgbench is the client. */
export async function openPostgres(folder: string, keys: number): Promise<BareDatabase> {
  const server = await PostgresServer.start({ folder, durable: true });
  const [url, bare] = [await server.createDatabase(), await server.createDatabase()];
  await server.execute(
    "CREATE TABLE bare (key bytea PRIMARY KEY, flags bigint, value bytea, version bigint); " +
      `INSERT INTO bare SELECT ('key:' || lpad(at::text, 8, '0'))::bytea, 0, '${VALUE}', 1 ` +
      `FROM generate_series(0, ${keys - 1}) AS at`,
    bare,
  );
  const key = "('key:' || lpad(:at::text, 8, '0'))::bytea";
  const pick = `\\set at random(0, ${keys - 1})\n`;
  const scripts = {
    reads: `${pick}SELECT ${COLUMNS} FROM bare WHERE key = ${key};\n`,
    writes: `${pick}INSERT INTO bare (${COLUMNS}) VALUES (${key}, 0, '${VALUE}', 1) ${UPSERT};\n`,
  };
  const upsertMany = (rows: number): string =>
    `INSERT INTO bare (${COLUMNS}) SELECT DISTINCT ` +
    `('key:' || lpad(floor(random() * ${keys})::text, 8, '0'))::bytea, 0, '${VALUE}'::bytea, 1 ` +
    `FROM generate_series(1, ${rows}) ${UPSERT};\n`;
  const run = async (script: string, clients: number, seconds: number): Promise<LoadFigures> => {
    const place = await Deno.makeTempDir({ dir: folder });
    await Deno.writeTextFile(`${place}/script`, script);
    const output = await server.run(
      "pgbench",
      // deno-fmt-ignore
      ["-n", "-M", "prepared", "-f", `${place}/script`, "-c", `${clients}`, "-T", `${Math.ceil(seconds)}`, "-l", "--log-prefix", `${place}/log`, bare],
    );
    const perSecond = Number(/tps = ([\d.]+)/.exec(output)?.[1]);
    if (!(perSecond > 0)) throw new Error(`pgbench printed no transactions a second: ${output}`);
    return loadFigures(perSecond, await latenciesIn(place));
  };
  return {
    name: "PostgreSQL",
    url,
    reads: (seconds) => run(scripts.reads, 1, seconds),
    writes: (clients, seconds) => run(scripts.writes, clients, seconds),
    groups: async (rows, seconds) => {
      const figures = await run(upsertMany(rows), 1, seconds);
      return { ...figures, perSecond: figures.perSecond * rows };
    },
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

/** Reads the logs of pgbench, whose third number is a transaction's time in microseconds. */
async function latenciesIn(folder: string): Promise<number[]> {
  const latenciesMs: number[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    if (!name.startsWith("log")) continue;
    for (const line of (await Deno.readTextFile(`${folder}/${name}`)).trim().split("\n")) {
      latenciesMs.push(Number(line.split(" ")[2]) / 1000);
    }
  }
  return latenciesMs;
}
