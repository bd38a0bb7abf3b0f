import license from "../../LICENSE" with { type: "text" };
import { parseOptions } from "../cli/argv.ts";
import { refusePublicMetrics } from "../cli/auth_options.ts";
import { toMetrics } from "../cli/options.ts";
import { helpLines, optionTexts } from "../cli/help.ts";
import { isPublic } from "../cli/listen.ts";
import { PROXY_OPTIONS } from "../cli/option_table.ts";
import type { LogFormat } from "../log.ts";
import { type Listen, listenText, type TcpListen } from "../net/transport.ts";
import type { ProcessInfo } from "../process_info.ts";
import type { CacheAddress } from "../rows/caches/caches_file.ts";
import type { CacheMode } from "../rows/caches/list_keeper.ts";
import type { Database } from "../rows/databases/backend.ts";
import { postgresSchema, sqliteSchema } from "../rows/databases/schema.ts";
import type { TableNames } from "../rows/databases/table.ts";
import { toCaches, toDatabase } from "../rows/row_arguments.ts";

/** The options of a proxy, checked. */
export interface ProxyOptions {
  readonly database: Database;
  readonly databaseConnectionsMax: number;
  readonly databaseTimeoutMs: number;
  readonly names: TableNames;
  /** Those of `--cache`; none with `--caches`. */
  readonly caches: readonly CacheAddress[];
  /** The file of `--caches`; "": none. */
  readonly cachesPath: string;
  readonly cacheMode: CacheMode;
  readonly cacheTimeoutMs: number;
  readonly hostnames: readonly string[];
  /** The address of `--metrics`; null: none. */
  readonly metrics: TcpListen | null;
  /** 0: any free port. */
  readonly port: number;
  /** Paths of certificate and key; null: plain connections. */
  readonly tls: { readonly chainCert: string; readonly key: string } | null;
  readonly connectionsMax: number;
  /** 0: none. */
  readonly idleTimeoutSec: number;
  readonly sendTimeoutSec: number;
  readonly valueLengthMax: number;
  /** Path of the users' file; "": no authentication. */
  readonly authFile: string;
  readonly authTimeoutSec: number;
  /** Path of the file with the name and the password for caches; "": none. */
  readonly cacheLoginFile: string;
  /** Path of the certificates that verify the caches; "": no TLS to caches. */
  readonly cacheCaCertPath: string;
  readonly tokensMax: number;
  readonly appliedTtlSec: number;
  readonly logFormat: LogFormat;
}

/** The action that a command line asks for. */
export type ProxyCommandLine =
  | { readonly kind: "print"; readonly text: string }
  | { readonly kind: "refuse"; readonly errors: readonly string[]; readonly logFormat: LogFormat }
  | { readonly kind: "init" | "proxy"; readonly options: ProxyOptions };

/** `leased proxy init` prints or runs SQL instead of serving. */
const INIT = "init";

/** Parses the command line after `leased proxy`. */
export function readProxyCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): ProxyCommandLine {
  const isInit = argv[0] === INIT;
  const { values, given, errors } = parseOptions(isInit ? argv.slice(1) : argv, PROXY_OPTIONS);
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  if (values.license) return { kind: "print", text: license.trimEnd() };
  const logFormat = values["log-format"];
  const chainCert = values["ssl-chain-cert"];
  if (!isInit && values.run) errors.push("--run: needs init, as in leased proxy init --run");
  if (chainCert === "" && values["ssl-key"] !== "") {
    errors.push("--ssl-key: needs --ssl-chain-cert");
  }
  const options: ProxyOptions = {
    database: toDatabase(values.db, errors),
    databaseConnectionsMax: values["db-connections"],
    databaseTimeoutMs: values["db-timeout"],
    names: {
      table: values.table,
      key: values["key-column"],
      value: values["value-column"],
      version: values["version-column"],
      flags: values["flags-column"],
    },
    caches: given.has("caches") ? [] : toCaches(values.cache, errors),
    cachesPath: values.caches,
    cacheMode: values["cache-mode"],
    cacheTimeoutMs: values["cache-timeout"],
    hostnames: values.listen,
    metrics: toMetrics(values.metrics, errors),
    port: Math.max(0, values.port),
    tls: chainCert === "" ? null : { chainCert, key: values["ssl-key"] || chainCert },
    connectionsMax: values["conn-limit"],
    idleTimeoutSec: values["idle-timeout"],
    sendTimeoutSec: values["send-timeout"],
    valueLengthMax: values["max-item-size"],
    authFile: values["auth-file"],
    authTimeoutSec: values["auth-timeout"],
    cacheLoginFile: values["cache-login"],
    cacheCaCertPath: values["cache-ca-cert"],
    tokensMax: values["token-entries"],
    appliedTtlSec: values["applied-ttl"],
    logFormat,
  };
  if (values["require-auth"] && options.authFile === "") {
    errors.push(
      ...unprotected(options).map((each) =>
        `--require-auth: other hosts can reach ${each}, and need no password; add -Y (--auth-file), or listen on 127.0.0.1`
      ),
    );
  }
  if (values["require-auth"]) refusePublicMetrics(options.metrics, errors);
  if (given.has("cache") && given.has("caches")) {
    errors.push("--cache and --caches: give one of them");
  }
  if (errors.length > 0) return { kind: "refuse", errors, logFormat };
  if (!isInit) return { kind: "proxy", options };
  return values.run ? { kind: "init", options } : { kind: "print", text: schemaOf(options) };
}

/** Returns the addresses that other hosts can reach without a password. */
export function unprotected({ hostnames, port, authFile }: ProxyOptions): string[] {
  if (authFile !== "") return [];
  return hostnames.map((hostname): Listen => ({ kind: "tcp", hostname, port, protocol: "ascii" }))
    .filter(isPublic).map(listenText);
}

/** Returns the SQL that creates the proxy's tables, to be executed by a user who may create tables. */
function schemaOf({ database, names }: ProxyOptions): string {
  return (database.kind === "sqlite" ? sqliteSchema(names) : postgresSchema(names)).trimEnd();
}

/** Returns the text of `leased proxy --help`. */
function helpText(version: string): string {
  return [
    `leased ${version}: an update-token proxy between clients, caches and a database`,
    "",
    "Usage: leased proxy [options]       serve",
    "       leased proxy init [options]  print the SQL that makes the tables; with --run, run it",
    ...helpLines(optionTexts(PROXY_OPTIONS)),
  ].join("\n");
}
