import type { Views } from "../views/view.ts";
import type { Backend, Database, InspectedViews, PostgresSettings } from "./backend.ts";
import { SqliteBackend } from "./sqlite.ts";
import { inspectSqliteViews } from "./sqlite_views.ts";
import type { TableNames } from "./table.ts";

/**
 * Not a literal in import(): the server's module graph must not have the driver in it, which would be downloaded at
 * every first start.
 */
const POSTGRES_MODULE = "./postgres/backend.ts";

/** As postgres/backend.ts exports it; a type import would put that file into the graph, too. */
interface PostgresModule {
  openPostgres(url: string, names: TableNames, settings: PostgresSettings): Promise<Backend>;
  inspectPostgresViews(
    url: string,
    views: Views,
    names: TableNames,
    timeoutMs: number,
  ): Promise<InspectedViews>;
}

/** How to reach the database. */
export interface DatabaseOptions {
  readonly database: Database;
  readonly databaseConnectionsMax: number;
  readonly databaseTimeoutMs: number;
  readonly names: TableNames;
}

/** How to ask the database of views. */
export type InspectionOptions = Pick<
  DatabaseOptions,
  "database" | "names" | "databaseTimeoutMs"
>;

/** Opens the database, and creates missing tables. @throws The database's error. */
export async function openBackend(options: DatabaseOptions): Promise<Backend> {
  const { database, names, databaseTimeoutMs } = options;
  if (database.kind === "sqlite") {
    return new SqliteBackend(database.path, names, databaseTimeoutMs);
  }
  const { openPostgres } = await loadPostgres();
  return await openPostgres(database.url, names, {
    connectionsMax: options.databaseConnectionsMax,
    timeoutMs: databaseTimeoutMs,
  });
}

/** Asks the database of views, and makes nothing there. @throws The database's error. */
export async function inspectViews(
  { database, names, databaseTimeoutMs }: InspectionOptions,
  views: Views,
): Promise<InspectedViews> {
  if (database.kind === "sqlite") return inspectSqliteViews(database.path, views, names);
  const { inspectPostgresViews } = await loadPostgres();
  return await inspectPostgresViews(database.url, views, names, databaseTimeoutMs);
}

/** @throws When the lock file of the process does not name the driver, or it cannot be downloaded. */
async function loadPostgres(): Promise<PostgresModule> {
  try {
    return await import(POSTGRES_MODULE);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new Error(
      "cannot load the driver of PostgreSQL; start with `deno task proxy`, " +
        `or with deno run --lock=lib/rows/databases/postgres/deno.lock: ${reason}`,
    );
  }
}
