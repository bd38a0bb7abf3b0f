import type { Backend, PostgresSettings } from "./backend.ts";
import type { ProxyOptions } from "./options.ts";
import { SqliteBackend } from "./sqlite.ts";
import type { TableNames } from "./table.ts";

/**
 * Not a literal in import(): the server's module graph must not have the driver in it, which would be downloaded at
 * every first start.
 */
const POSTGRES_MODULE = "./postgres/backend.ts";

/** As postgres/backend.ts exports it; a type import would put that file into the graph, too. */
interface PostgresModule {
  openPostgres(url: string, names: TableNames, settings: PostgresSettings): Promise<Backend>;
}

/** Opens the database, and creates missing tables. @throws The database's error. */
export async function openBackend(options: ProxyOptions): Promise<Backend> {
  const { database, names } = options;
  if (database.kind === "sqlite") return new SqliteBackend(database.path, names);
  const { openPostgres } = await import(POSTGRES_MODULE) as PostgresModule;
  return await openPostgres(database.url, names, {
    connectionsMax: options.databaseConnectionsMax,
    timeoutMs: options.databaseTimeoutMs,
  });
}
