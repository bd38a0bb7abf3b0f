import { DatabaseSync } from "node:sqlite";
import { sharedPostgres, type TestDatabase } from "../support/servers/databases.ts";
import type { Committed } from "./history.ts";

/** Has the database note every version of every row. */
export async function noteCommits({ url }: TestDatabase): Promise<void> {
  if (url.startsWith("sqlite:")) {
    using file = new DatabaseSync(url.slice("sqlite:".length));
    const note = "BEGIN INSERT INTO noted VALUES (NEW.key, NEW.value, NEW.version); END";
    file.exec(
      "CREATE TABLE noted (key BLOB, value BLOB, version INTEGER);" +
        `CREATE TRIGGER note_insert AFTER INSERT ON kv ${note};` +
        `CREATE TRIGGER note_update AFTER UPDATE ON kv ${note};`,
    );
    return;
  }
  await (await sharedPostgres()).execute(
    "CREATE TABLE noted (key bytea, value bytea, version bigint);" +
      "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS " +
      "$$BEGIN INSERT INTO noted VALUES (NEW.key, NEW.value, NEW.version); RETURN NEW; END$$;" +
      "CREATE TRIGGER note AFTER INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION note()",
    url,
  );
}

/** Returns every version of every row. */
export async function readCommits({ url }: TestDatabase): Promise<Committed[]> {
  let lines: string[];
  if (url.startsWith("sqlite:")) {
    using file = new DatabaseSync(url.slice("sqlite:".length));
    const rows = file.prepare(
      "SELECT CAST(key AS TEXT) || ' ' || CAST(value AS TEXT) || ' ' || version AS line FROM noted",
    ).all();
    lines = rows.map(({ line }) => line as string);
  } else {
    const sql = "SELECT convert_from(key, 'UTF8'), convert_from(value, 'UTF8'), version FROM noted";
    lines = (await (await sharedPostgres()).execute(sql, url)).replaceAll("|", " ").split("\n");
  }
  return lines.filter((line) => line !== "").map((line) => {
    const [key, value, version] = line.split(" ");
    return { key: key!, value: value!, version: Number(version) };
  });
}

/** Counts the writes that are committed: the log has the last one of each key in a transaction. */
export function versionsIn(committed: readonly Committed[]): number {
  const highest = new Map<string, number>();
  for (const { key, version } of committed) {
    highest.set(key, Math.max(version, highest.get(key) ?? 0));
  }
  return highest.values().reduce((sum, version) => sum + version, 0);
}
