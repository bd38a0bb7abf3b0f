import { readServerAddress } from "../cli/listen.ts";
import type { ServerOptions } from "../cli/options.ts";
import { valueOr } from "../cli/values.ts";
import { hostPortText } from "../net/transport.ts";
import { type Database, databaseName } from "../databases/base/backend.ts";
import { hostUrls } from "../databases/base/postgres_url.ts";
import type { DatabaseOptions } from "../databases/open_backend.ts";
import { textOf } from "../databases/views/parameter_type.ts";
import { readViewsFile } from "../databases/views/views_file.ts";
import type { NodeOptions } from "./nodes/options.ts";
import type { RowsOptions } from "./options.ts";
import { StartError } from "./origin/start_error.ts";

const SQLITE_PREFIX = "sqlite:";
type DatabaseValues = Pick<
  ServerOptions,
  | "db"
  | "table"
  | "keyColumn"
  | "valueColumn"
  | "versionColumn"
  | "flagsColumn"
  | "rowExpiry"
  | "expiryColumn"
>;

/** Makes the configuration of rows. @param errors Receives a message if the address of the database is malformed. */
export function toRowsOptions(options: ServerOptions, errors: string[]): RowsOptions {
  const { database, names } = toDatabaseOptions(options, errors);
  return {
    ...options,
    database,
    names,
    // An origin before SQLite has a lock that ends with its process.
    rightFrom: database.kind === "sqlite" ? undefined : databaseName(database),
    takeover: options.standby ? "standby" : options.takeOver ? "force" : "refuse",
    driftShare: options.memberDrift / 100,
    resultBytesMax: options.store.itemSizeMaxBytes,
  };
}

/** Makes the configuration of a node. @param errors Receives a message for every malformed address. */
export function toNodeOptions(options: ServerOptions, errors: string[]): NodeOptions {
  const origins = options.origin.flatMap((text) => {
    const label = `--origin ${JSON.stringify(text)}`;
    const address = valueOr(undefined, () => readServerAddress(text), errors, label);
    return address === undefined
      ? []
      : [{ ...address, name: hostPortText(address.hostname, address.port) }];
  });
  return {
    ...options,
    origins,
    rightFrom: `origin ${origins.map(({ name }) => name).join(", ")}`,
  };
}

/** Returns what the keys of the views of a file begin with. @param path "": there is no file. @throws StartError */
export function viewPrefixes(path: string): readonly string[] {
  if (path === "") return [];
  try {
    return readViewsFile(path, [""]).prefixes.map((prefix) => textOf(prefix)!);
  } catch (error) {
    throw new StartError("cannot use --views", error, true);
  }
}

/**
 * Returns the options on which cached rows depend, beside the database. Only a server with the same ones keeps the rows
 * of a snapshot.
 */
export function savedRowsOptions({ prefixes, rowExpiry, names, follow }: RowsOptions): string {
  return JSON.stringify({ prefixes, expiry: rowExpiry, names, follows: follow });
}

/** Makes the options of a database that are made of several values. */
export function toDatabaseOptions(
  values: DatabaseValues,
  errors: string[],
): Pick<DatabaseOptions, "database" | "names"> {
  return {
    database: toDatabase(values.db, errors),
    names: {
      table: values.table,
      key: values.keyColumn,
      value: values.valueColumn,
      version: values.versionColumn,
      flags: values.flagsColumn,
      expiry: values.rowExpiry === "column" ? values.expiryColumn : "",
    },
  };
}

/** Reads the address of a database. */
export function toDatabase(text: string, errors: string[]): Database {
  const path = text.startsWith(SQLITE_PREFIX) ? text.slice(SQLITE_PREFIX.length) : "";
  if (path !== "") return { kind: "sqlite", path };
  const shown = JSON.stringify(withoutPassword(text));
  const urls = valueOr(null, () => hostUrls(text), errors, `--db ${shown}`);
  return urls === null ? { kind: "sqlite", path } : { kind: "postgres", url: text };
}

/** Hides the password of a URL, which need not be a valid one: from the colon of the user to the last `@`. */
function withoutPassword(url: string): string {
  return url.replace(/:(?!\/\/).*@/s, ":…@").replace(/([?&]password=)[^&]*/gi, "$1…");
}
