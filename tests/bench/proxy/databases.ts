/** The same work on a database without a proxy. */
import { DatabaseSync } from "node:sqlite";
import type { PostgresServer } from "../../support/servers/postgres.ts";

type KeyOf = (number: number) => string;

const ENCODER = new TextEncoder();

/** Reads each row once by its key. @returns Microseconds of a read. */
export function bareReadUs(path: string, rows: number, keyOf: KeyOf): number {
  using database = new DatabaseSync(path, { readOnly: true });
  const statement = database.prepare("SELECT flags, value, version FROM kv WHERE key = ?");
  const keys = Array.from({ length: rows }, (_, number) => ENCODER.encode(keyOf(number)));
  const startMs = performance.now();
  for (const key of keys) statement.get(key);
  return (performance.now() - startMs) * 1000 / rows;
}

/** Writes rows, each in a transaction of its own, as safely as the proxy does. @returns Commits a second. */
export function bareCommitsPerSecond(
  path: string,
  seconds: number,
  keyOf: KeyOf,
  text: string,
): number {
  using database = new DatabaseSync(path);
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; " +
      "CREATE TABLE IF NOT EXISTS kv (key BLOB PRIMARY KEY, value BLOB, version INTEGER)",
  );
  const statement = database.prepare(
    "INSERT INTO kv VALUES (?, ?, 1) ON CONFLICT (key) DO UPDATE SET value = excluded.value, " +
      "version = kv.version + 1",
  );
  const value = ENCODER.encode(text);
  const startMs = performance.now();
  let count = 0;
  for (; performance.now() - startMs < seconds * 1000; count++) {
    statement.run(ENCODER.encode(keyOf(7 * count)), value);
  }
  return count / ((performance.now() - startMs) / 1000);
}

/** Updates random rows by pgbench, with prepared statements. @returns Updates a second. */
export async function bareUpdatesPerSecond(
  server: PostgresServer,
  url: string,
  folder: string,
  clients: number,
  seconds: number,
  rows: number,
): Promise<number> {
  const script = `${folder}/update.sql`;
  await Deno.writeTextFile(
    script,
    `\\set row random(0, ${rows - 1})\n` +
      "UPDATE kv SET value = decode(repeat('76', 100), 'hex'), version = version + 1 " +
      "WHERE key = convert_to('row:' || :row, 'UTF8');\n",
  );
  const printed = await server.run("pgbench", [
    ...["-n", "-M", "prepared", "-c", `${clients}`, "-j", "2", "-T", `${Math.ceil(seconds)}`],
    ...["-f", script, url],
  ]);
  const [, perSecond] = /^tps = ([\d.]+)/m.exec(printed) ?? [];
  if (perSecond === undefined) throw new Error(`pgbench: ${printed}`);
  return Number(perSecond);
}
