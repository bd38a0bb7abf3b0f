import license from "../../LICENSE" with { type: "text" };
import { parseTable } from "../cli/argv.ts";
import { refusePublicMetrics } from "../cli/auth_options.ts";
import { toMetrics } from "../cli/options.ts";
import { helpLines, type OptionGroup, type OptionText, optionTexts } from "../cli/help.ts";
import { isPublic, readServerAddress } from "../cli/listen.ts";
import type { OptionRow } from "../cli/option_table.ts";
import { valueOr } from "../cli/values.ts";
import type { LogFormat } from "../log.ts";
import { type Listen, listenText, type TcpListen } from "../net/transport.ts";
import type { ProcessInfo } from "../process_info.ts";
import { type CacheAddress, cacheName } from "./caches/caches_file.ts";
import type { CacheMode } from "./caches/list_keeper.ts";
import { postgresSchema, sqliteSchema } from "./schema.ts";
import type { TableNames } from "./table.ts";

const NONE = NaN;
const INT31 = 2 ** 31 - 1;
const MIB = 1024 * 1024;
const SQLITE_PREFIX = "sqlite:";
const POSTGRES_URL = /^postgres(?:ql)?:\/\/\S+$/;

/** The options of `leased proxy`. */
// deno-fmt-ignore
const PROXY_OPTIONS = [
  // name              letter kind     unit           least most       preset             state    meaning
  ["db",               "",  "text",   "url",          NONE, NONE,      "sqlite:leased.db", "works", "database that holds the rows: sqlite:<file>, or postgres://user@host/database; a password may stand in PGPASSWORD"],
  ["db-connections",   "",  "whole",  "connections",     1, 1000,      "10",              "works", "most connections to PostgreSQL, and so most statements in progress; others wait"],
  ["db-timeout",       "",  "whole",  "milliseconds",  100, INT31,     "5000",            "works", "longest time for a statement of PostgreSQL, or for the wait for a connection to it"],
  ["cache",            "",  "list",   "host:port",    NONE, NONE,      "127.0.0.1:11211", "works", "cache that may hold rows; name every one: writes delete in all of them; separate several with commas, or repeat the option"],
  ["caches",           "",  "text",   "file",         NONE, NONE,      "",                "works", "file of caches instead of --cache, one host:port [weight] a line; SIGHUP reads it again"],
  ["cache-mode",       "",  "choice", "ketama|replicated", NONE, NONE, "ketama",          "works", "ketama: each key is read through one cache, as by libmemcached; replicated: through the first cache of the list that answers"],
  ["cache-timeout",    "",  "whole",  "milliseconds",    1, INT31,     "1000",            "works", "how long a cache may take; a cache that does not answer makes writes fail"],
  ["port",             "p", "whole",  "port",           -1, 65535,     "11311",           "works", "TCP port to listen on; -1: any free port"],
  ["listen",           "l", "list",   "host",         NONE, NONE,      "127.0.0.1",       "works", "address to listen on; separate several with commas, or repeat the option"],
  ["ssl-chain-cert",   "",  "text",   "path",         NONE, NONE,      "",                "works", "TLS for clients, with this certificate chain in PEM"],
  ["ssl-key",          "",  "text",   "path",         NONE, NONE,      "",                "works", "private key in PEM; by default in the file of --ssl-chain-cert"],
  ["conn-limit",       "c", "whole",  "connections",     1, 65536,     "1024",            "works", "maximum number of client connections"],
  ["idle-timeout",     "",  "whole",  "seconds",         0, INT31,     "0",               "works", "close connections that send nothing for this long; 0: never"],
  ["send-timeout",     "",  "whole",  "seconds",         1, INT31,     "60",              "works", "close connections that accept no byte of their replies for this long"],
  ["max-item-size",    "I", "bytes",  "bytes",          1, 64 * MIB,   "1m",              "works", "longest value, up to 64m; a bare number is in bytes"],
  ["auth-file",        "Y", "text",   "path",         NONE, NONE,      "",                "works", "ask clients for a name and a password; the file has lines user:password, as for the server"],
  ["auth-timeout",     "",  "whole",  "seconds",         1, INT31,     "30",              "works", "with -Y: close connections that do not authenticate within this time"],
  ["require-auth",     "",  "switch", "",             NONE, NONE,      "",                "works", "refuse to listen beyond this host without authentication"],
  ["cache-login",      "",  "text",   "path",         NONE, NONE,      "",                "works", "file with the line user:password with which the proxy authenticates to caches"],
  ["cache-ca-cert",    "",  "text",   "path",         NONE, NONE,      "",                "works", "reach caches over TLS, and verify them against these certificates in PEM, beside the runtime's root certificates"],
  ["metrics",          "",  "text",   "[host:]port",  NONE, NONE,      "",                "works", "serve statistics to Prometheus (GET /metrics) and GET /health by HTTP on this address; only a port: 127.0.0.1"],
  ["token-limit",      "",  "whole",  "tokens",          1, 10_000_000, "100000",         "works", "maximum number of update tokens that are out"],
  ["applied-ttl",      "",  "whole",  "seconds",        60, INT31,     "86400",           "works", "how long the database remembers which update tokens were used, for writers that ask again"],
  ["table",            "",  "text",   "name",         NONE, NONE,      "kv",              "works", "table of the rows; created if missing"],
  ["key-column",       "",  "text",   "name",         NONE, NONE,      "key",             "works", "its primary key"],
  ["value-column",     "",  "text",   "name",         NONE, NONE,      "value",           "works", "column of the value"],
  ["version-column",   "",  "text",   "name",         NONE, NONE,      "version",         "works", "column of the version, an integer that grows with every write"],
  ["flags-column",     "",  "text",   "name",         NONE, NONE,      "flags",           "works", "column of the client's flags, an integer"],
  ["log-format",       "",  "choice", "text|json",    NONE, NONE,      "text",            "works", "format of log lines on stderr"],
  ["help",             "h", "switch", "",             NONE, NONE,      "",                "works", "print this help and exit"],
  ["license",          "i", "switch", "",             NONE, NONE,      "",                "works", "print the license and exit"],
] as const satisfies readonly OptionRow[];

/** The options of `leased proxy init`. */
// deno-fmt-ignore
const INIT_OPTIONS = [
  ["run",              "",  "switch", "",             NONE, NONE,      "",                "works", "with init: make the tables, instead of printing the SQL"],
  ...PROXY_OPTIONS,
] as const satisfies readonly OptionRow[];

const GROUPS: readonly (readonly [title: string, names: readonly string[]])[] = [
  ["Database", [
    ...["db", "table", "key-column", "value-column", "version-column", "flags-column"],
    ...["db-connections", "db-timeout", "applied-ttl", "run"],
  ]],
  ["Caches", ["cache", "caches", "cache-mode", "cache-timeout", "cache-login", "cache-ca-cert"]],
  ["Clients", [
    ...["port", "listen", "ssl-chain-cert", "ssl-key", "conn-limit"],
    ...["idle-timeout", "send-timeout", "max-item-size", "token-limit"],
  ]],
  ["Authentication", ["auth-file", "auth-timeout", "require-auth"]],
  ["Monitoring", ["metrics"]],
  ["Process", ["log-format", "help", "license"]],
];

/** The database that has the rows. */
export type Database =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "postgres"; readonly url: string };

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
  /** Path of the users' file; "": nobody has to authenticate. */
  readonly authFile: string;
  readonly authTimeoutSec: number;
  /** Path of the file with the name and the password for caches; "": none. */
  readonly cacheLoginFile: string;
  /** Path of the certificates that verify those of caches; "": caches are reached without TLS. */
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
  const { values, given, errors } = isInit
    ? parseTable(argv.slice(1), INIT_OPTIONS)
    : parseTable(argv, PROXY_OPTIONS);
  const text = (name: string): string => values[name] as string;
  const number = (name: string): number => values[name] as number;
  if (values["help"]) return { kind: "print", text: helpText(processInfo.version) };
  if (values["license"]) return { kind: "print", text: license.trimEnd() };
  const logFormat = text("log-format") as LogFormat;
  const chainCert = text("ssl-chain-cert");
  if (chainCert === "" && text("ssl-key") !== "") {
    errors.push("--ssl-key: needs --ssl-chain-cert");
  }
  const options: ProxyOptions = {
    database: toDatabase(text("db"), errors),
    databaseConnectionsMax: number("db-connections"),
    databaseTimeoutMs: number("db-timeout"),
    names: {
      table: text("table"),
      key: text("key-column"),
      value: text("value-column"),
      version: text("version-column"),
      flags: text("flags-column"),
    },
    caches: given.has("caches") ? [] : toCaches(values["cache"] as readonly string[], errors),
    cachesPath: text("caches"),
    cacheMode: text("cache-mode") as CacheMode,
    cacheTimeoutMs: number("cache-timeout"),
    hostnames: values["listen"] as readonly string[],
    metrics: toMetrics(text("metrics"), errors),
    port: Math.max(0, number("port")),
    tls: chainCert === "" ? null : { chainCert, key: text("ssl-key") || chainCert },
    connectionsMax: number("conn-limit"),
    idleTimeoutSec: number("idle-timeout"),
    sendTimeoutSec: number("send-timeout"),
    valueLengthMax: number("max-item-size"),
    authFile: text("auth-file"),
    authTimeoutSec: number("auth-timeout"),
    cacheLoginFile: text("cache-login"),
    cacheCaCertPath: text("cache-ca-cert"),
    tokensMax: number("token-limit"),
    appliedTtlSec: number("applied-ttl"),
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
  return values["run"] ? { kind: "init", options } : { kind: "print", text: schemaOf(options) };
}

/** Returns the addresses that other hosts can reach without a password. */
export function unprotected({ hostnames, port, authFile }: ProxyOptions): string[] {
  if (authFile !== "") return [];
  return hostnames.map((hostname): Listen => ({ kind: "tcp", hostname, port, protocol: "ascii" }))
    .filter(isPublic).map(listenText);
}

function toDatabase(text: string, errors: string[]): Database {
  if (POSTGRES_URL.test(text) && URL.canParse(text)) return { kind: "postgres", url: text };
  const path = text.startsWith(SQLITE_PREFIX) ? text.slice(SQLITE_PREFIX.length) : "";
  if (path === "") {
    // A URL may have a password in it.
    const shown = JSON.stringify(text.replace(/:[^:@]*@/, ":…@"));
    errors.push(`--db ${shown}: must be sqlite:<file> or postgres://<user>@<host>/<database>`);
  }
  return { kind: "sqlite", path };
}

/** Returns the SQL that creates the proxy's tables, to be executed by a user who may create tables. */
function schemaOf({ database, names }: ProxyOptions): string {
  return (database.kind === "sqlite" ? sqliteSchema(names) : postgresSchema(names)).trimEnd();
}

/** Returns the database as log lines name it: without a password. */
export function databaseName(database: Database): string {
  if (database.kind === "sqlite") return database.path;
  const url = new URL(database.url);
  url.password = "";
  url.search = "";
  return url.href;
}

function toCaches(texts: readonly string[], errors: string[]): CacheAddress[] {
  const caches = new Map<string, CacheAddress>();
  for (const text of texts) {
    const label = `--cache ${JSON.stringify(text)}`;
    const address = valueOr(undefined, () => readServerAddress(text), errors, label);
    if (address !== undefined) caches.set(cacheName(address), { ...address, weight: 1 });
  }
  return [...caches.values()];
}

/** Describes every option, in the order of `--help`. */
export function proxyOptionTexts(): OptionText[] {
  const groups: OptionGroup[] = GROUPS.map(([title, names]) => [
    title,
    names.map((name) => INIT_OPTIONS.find((row) => row[0] === name)!),
  ]);
  return optionTexts(groups);
}

/** Returns the text of `leased proxy --help`. */
function helpText(version: string): string {
  return [
    `leased ${version}: an update-token proxy between clients, caches and a database`,
    "",
    "Usage: leased proxy [options]       serve",
    "       leased proxy init [options]  print the SQL that makes the tables; with --run, run it",
    ...helpLines(proxyOptionTexts()),
  ].join("\n");
}
