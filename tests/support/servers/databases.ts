import { openPostgres } from "../../../lib/databases/postgres/backend.ts";
import { SqliteBackend } from "../../../lib/databases/sqlite/backend.ts";
import { DEFAULT_TABLE, type TableNames } from "../../../lib/databases/base/table.ts";
import { type RowBackend, withSingleRows } from "../single_rows.ts";
import { HAS_POSTGRES, PostgresServer } from "./postgres.ts";
import { needs } from "../needs/needs.ts";

/** An empty database for one test. */
export interface TestDatabase extends AsyncDisposable {
  /** For `--db`. */
  readonly url: string;
  /** A folder that an origin may read and write; "": it needs none. */
  readonly folder: string;
  /** Another backend, as another origin would have it. */
  open(names?: TableNames, nowUnixMs?: () => number): Promise<RowBackend>;
}

/** The kinds of databases that an origin may have. */
export type DatabaseKind = "SQLite" | "PostgreSQL";

const TIMEOUT_MS = 30_000;
const CONNECTIONS = 8;

let server: Promise<PostgresServer> | null = null;

/** The cluster that the tests of a file share: started when it is first needed, stopped after the last test. */
export function sharedPostgres(): Promise<PostgresServer> {
  return server ??= PostgresServer.start();
}

Deno.test.afterAll(async () => {
  if (server !== null) await (await server).stop();
});

export async function createDatabase(kind: DatabaseKind): Promise<TestDatabase> {
  return kind === "SQLite" ? await createFile() : await createPostgres();
}

async function createFile(): Promise<TestDatabase> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/rows.db`;
  return {
    url: `sqlite:${path}`,
    folder,
    open: async (names, nowUnixMs) =>
      withSingleRows(await Promise.resolve(new SqliteBackend(path, names, TIMEOUT_MS, nowUnixMs))),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

async function createPostgres(): Promise<TestDatabase> {
  const url = await (await sharedPostgres()).createDatabase();
  return {
    url,
    folder: "",
    open: async (names = DEFAULT_TABLE, nowUnixMs = Date.now) => {
      const settings = { connectionsMax: CONNECTIONS, timeoutMs: TIMEOUT_MS, nowUnixMs };
      return withSingleRows(await openPostgres(url, names, settings));
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** A test for each kind of database; ignored with PostgreSQL where that is not installed. */
export function testDatabases(
  name: string,
  run: (database: TestDatabase) => Promise<void>,
  kinds: readonly DatabaseKind[] = ["SQLite", "PostgreSQL"],
): void {
  for (const kind of kinds) {
    Deno.test(
      `${kind}: ${name}`,
      kind === "PostgreSQL" ? needs(kind, HAS_POSTGRES) : {},
      async () => {
        await using database = await createDatabase(kind);
        await run(database);
      },
    );
  }
}
