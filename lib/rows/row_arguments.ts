import { readServerAddress } from "../cli/listen.ts";
import type { RowArguments } from "../cli/options.ts";
import { valueOr } from "../cli/values.ts";
import { hostPortText } from "../net/transport.ts";
import { type Database, databaseName } from "../databases/base/backend.ts";
import type { DatabaseOptions } from "../databases/open_backend.ts";
import type { NodeOptions } from "./nodes/options.ts";
import type { RowsOptions } from "./options.ts";

const SQLITE_PREFIX = "sqlite:";
const POSTGRES_URL = /^postgres(?:ql)?:\/\/\S+$/;
type DatabaseValues = Pick<
  RowArguments["values"],
  | "db"
  | "db-connections"
  | "db-timeout"
  | "table"
  | "key-column"
  | "value-column"
  | "version-column"
  | "flags-column"
  | "row-expiry"
  | "expiry-column"
>;

/**
 * Makes the configuration of rows from the server's options.
 *
 * @param errors Receives a message for every contradiction.
 */
export function toRowsOptions(
  { values, given }: RowArguments,
  errors: string[],
): RowsOptions {
  if (values.standby && values["take-over"]) {
    errors.push("--standby and --take-over: give one of them");
  }
  for (const name of ["lag-max", "lag-quarantine", "views"] as const) {
    if (given.has(name) && !values.follow) errors.push(`--${name}: needs --follow`);
  }
  const options = toDatabaseOptions(values, errors);
  return {
    ...options,
    // An origin before SQLite has a lock that ends with its process.
    rightFrom: options.database.kind === "sqlite" ? undefined : databaseName(options.database),
    takeover: values.standby ? "standby" : values["take-over"] ? "force" : "refuse",
    rightMs: values["member-time"],
    driftShare: values["member-drift"] / 100,
    prefixes: values.rows.length === 0 ? [""] : values.rows,
    expiry: values["row-expiry"],
    tokensMax: values["token-entries"],
    appliedTtlSec: values["applied-ttl"],
    follows: values.follow,
    viewsPath: values.views,
    lagMsMax: values["lag-max"],
    lagQuarantines: values["lag-quarantine"],
  };
}

/**
 * Makes the configuration of a node from the server's options.
 *
 * @param errors Receives a message for every malformed address.
 */
export function toNodeOptions(
  { values }: RowArguments,
  errors: string[],
): NodeOptions {
  const origins = values.origin.flatMap((text) => {
    const label = `--origin ${JSON.stringify(text)}`;
    const address = valueOr(undefined, () => readServerAddress(text), errors, label);
    return address === undefined
      ? []
      : [{ ...address, name: hostPortText(address.hostname, address.port) }];
  });
  return {
    origins,
    rightFrom: `origin ${origins.map(({ name }) => name).join(", ")}`,
    name: values["node-name"],
    prefixes: values.rows.length === 0 ? [""] : values.rows,
    expiry: values["row-expiry"],
    timeoutMs: values["db-timeout"],
    loginFile: values["origin-login"],
    caCertPath: values["origin-ca-cert"],
  };
}

/**
 * Returns the options on which cached rows depend, beside the database. Only a server with the same ones keeps the rows
 * of a snapshot.
 */
export function savedRowsOptions({ prefixes, expiry, names, follows }: RowsOptions): string {
  return JSON.stringify({ prefixes, expiry, names, follows });
}

/** Makes the options that say how to reach the database. */
export function toDatabaseOptions(values: DatabaseValues, errors: string[]): DatabaseOptions {
  return {
    database: toDatabase(values.db, errors),
    databaseConnectionsMax: values["db-connections"],
    databaseTimeoutMs: values["db-timeout"],
    names: {
      table: values.table,
      key: values["key-column"],
      value: values["value-column"],
      version: values["version-column"],
      flags: values["flags-column"],
      expiry: values["row-expiry"] === "column" ? values["expiry-column"] : "",
    },
  };
}

/** Reads the address of a database. */
export function toDatabase(text: string, errors: string[]): Database {
  const url = POSTGRES_URL.test(text) ? URL.parse(text) : null;
  // Of several hosts, each connection would choose one for itself.
  if (url !== null && !url.hostname.includes(",")) return { kind: "postgres", url: text };
  const path = text.startsWith(SQLITE_PREFIX) ? text.slice(SQLITE_PREFIX.length) : "";
  if (path === "") {
    const shown = JSON.stringify(withoutPassword(text));
    errors.push(`--db ${shown}: must be sqlite:<file> or postgres://<user>@<host>/<database>`);
  }
  return { kind: "sqlite", path };
}

/** Hides the password of a URL, which need not be a valid one: from the colon of the user to the last `@`. */
function withoutPassword(url: string): string {
  return url.replace(/:(?!\/\/).*@/s, ":…@").replace(/([?&]password=)[^&]*/gi, "$1…");
}
