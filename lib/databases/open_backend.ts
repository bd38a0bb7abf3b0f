import { sourcePath } from "../process/permissions.ts";
import { reasonOf } from "../process/reason.ts";
import type { Views } from "./views/view.ts";
import type { Backend, Database, InspectedViews, PostgresSettings } from "./base/backend.ts";
import type { Catalog } from "./base/catalog.ts";
import { SqliteBackend } from "./sqlite/backend.ts";
import { SqliteCatalog } from "./sqlite/catalog.ts";
import { inspectSqliteViews } from "./sqlite/views.ts";
import type { TableNames } from "./base/table.ts";

/**
 * Not a literal in import(): the server's module graph must not have the driver in it, which would be downloaded at
 * every first start.
 */
const POSTGRES_MODULE = "./postgres/backend.ts";
/** Names the driver, from the folder of main.ts. */
const LOCK_FILE = "lib/databases/postgres/deno.lock";

/** As postgres/backend.ts exports it; a type import would put that file into the graph, too. */
interface PostgresModule {
  openPostgres(url: string, names: TableNames, settings: PostgresSettings): Promise<Backend>;
  inspectPostgresViews(
    url: string,
    views: Views,
    names: TableNames,
    timeoutMs: number,
  ): Promise<InspectedViews>;
  openPostgresCatalog(url: string, names: TableNames, timeoutMs: number): Promise<Catalog>;
}

/** How to reach the database. */
export interface DatabaseOptions {
  readonly database: Database;
  readonly dbConnections: number;
  readonly dbTimeoutMs: number;
  readonly names: TableNames;
  /** Most bytes of a view's value; left out: there is no limit. */
  readonly resultBytesMax?: number;
  /** Whether PostgreSQL keeps its log only while it is read; left out: also while no origin reads it. */
  readonly temporarySlot?: boolean;
  /** Whether it is only read: nothing is made when it is opened, and no lock is waited for. */
  readonly isReader?: boolean;
}

/** How to ask the database of views and tables. */
export type InspectionOptions = Pick<
  DatabaseOptions,
  "database" | "names" | "dbTimeoutMs"
>;

/** Opens the database, and creates missing tables if it is not only read. @throws The database's error. */
export async function openBackend(options: DatabaseOptions): Promise<Backend> {
  const { database, names, dbTimeoutMs, resultBytesMax, isReader = false } = options;
  if (database.kind === "sqlite") {
    return new SqliteBackend(
      database.path,
      names,
      dbTimeoutMs,
      Date.now,
      resultBytesMax,
      isReader,
    );
  }
  const { openPostgres } = await loadPostgres();
  return await openPostgres(database.url, names, {
    connectionsMax: options.dbConnections,
    timeoutMs: dbTimeoutMs,
    resultBytesMax,
    hasTemporarySlot: options.temporarySlot ?? false,
    isReader,
  });
}

/** Asks the database of views, and makes nothing there. @throws The database's error. */
export async function inspectViews(
  { database, names, dbTimeoutMs }: InspectionOptions,
  views: Views,
): Promise<InspectedViews> {
  if (database.kind === "sqlite") return inspectSqliteViews(database.path, views, names);
  const { inspectPostgresViews } = await loadPostgres();
  return await inspectPostgresViews(database.url, views, names, dbTimeoutMs);
}

/** Opens the catalog of the database's tables, and changes nothing there. @throws The database's error. */
export async function openCatalog(
  { database, names, dbTimeoutMs }: InspectionOptions,
): Promise<Catalog> {
  if (database.kind === "sqlite") return new SqliteCatalog(database.path, names);
  const { openPostgresCatalog } = await loadPostgres();
  return await openPostgresCatalog(database.url, names, dbTimeoutMs);
}

/** @throws When the lock file of the process does not name the driver, or it cannot be downloaded. */
async function loadPostgres(): Promise<PostgresModule> {
  try {
    return await import(POSTGRES_MODULE);
  } catch (error) {
    const [reason] = reasonOf(error).split("\n");
    // Deno's own advice would change deno.lock.
    const cause = /lockfile is out of date/i.test(reason!)
      ? "the lock file of this process does not name it"
      : reason;
    throw new Error(
      `cannot load the driver of PostgreSQL: ${cause}; start with \`deno task rows\` or ` +
        `\`deno task views\`, or with deno run --lock=${sourcePath(LOCK_FILE)}`,
    );
  }
}
