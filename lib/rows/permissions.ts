import { fileNeeds, type Need, permissionHost } from "../process/permissions.ts";
import {
  type Database,
  databaseName,
  SQLITE_LOCK_SUFFIX,
  SQLITE_MEMORY,
} from "../databases/base/backend.ts";
import { hostUrls } from "../databases/base/postgres_url.ts";
import type { NodeOptions } from "./nodes/options.ts";
import type { RowsOptions } from "./options.ts";

const POSTGRES_PORT = 5432;
/** Environment that the driver of PostgreSQL reads. */
const POSTGRES_VARIABLES = ["PG*", "USERNAME", "USER", "LOGNAME"] as const;

/** Returns the permissions that rows need, at an origin or at a node. */
export function rowNeeds(rows: RowsOptions | NodeOptions): Need[] {
  return "origins" in rows ? nodeNeeds(rows) : originNeeds(rows);
}

/** Whether the driver of PostgreSQL is loaded. */
export function needsDriver(rows: RowsOptions | NodeOptions): boolean {
  return "database" in rows && rows.database.kind === "postgres";
}

function nodeNeeds({ origins, originLogin, originCaCert }: NodeOptions): Need[] {
  return [
    ...origins.map(({ hostname, port, name }) =>
      hostNeed(permissionHost(hostname, port), `ask the origin ${name} (--origin)`)
    ),
    ...readNeeds(originLogin, "--origin-login"),
    ...readNeeds(originCaCert, "--origin-ca-cert"),
  ];
}

function originNeeds(rows: RowsOptions): Need[] {
  return [...databaseNeeds(rows.database), ...readNeeds(rows.views, "--views")];
}

function databaseNeeds(database: Database): Need[] {
  const purpose = `use the database ${databaseName(database)} (--db)`;
  if (database.kind === "sqlite") {
    const { path } = database;
    if (path === SQLITE_MEMORY) return [];
    return fileNeeds(["read", "write"], [path, path + SQLITE_LOCK_SUFFIX], purpose);
  }
  return [
    ...hostUrls(database.url).map((url) => hostNeed(postgresHost(new URL(url)), purpose)),
    ...POSTGRES_VARIABLES.map((variable): Need => ({
      descriptor: { name: "env", variable },
      purpose,
    })),
  ];
}

/** @returns Undefined: the environment or the query names it. */
function postgresHost({ hostname, port }: URL): string | undefined {
  // An IPv6 address has its brackets in a URL.
  const name = hostname.replace(/^\[(.*)\]$/, "$1");
  return name === "" ? undefined : permissionHost(name, Number(port) || POSTGRES_PORT);
}

function readNeeds(path: string, option: string): Need[] {
  return path === "" ? [] : fileNeeds(["read"], [path], `read ${path} (${option})`);
}

/** @param host Undefined: any. */
function hostNeed(host: string | undefined, purpose: string): Need {
  return { descriptor: host === undefined ? { name: "net" } : { name: "net", host }, purpose };
}
