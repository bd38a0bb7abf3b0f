// Every option of the server: where it means something, values to try, and its conduct elsewhere. A configuration is a
// role and options with values; `{word}` in a value stands for a path or an address that the user of the table knows.

import { readCommand } from "../../../lib/cli/command.ts";
import { type OptionRow, SERVER_OPTIONS } from "../../../lib/cli/option_table.ts";
import { toNodeOptions, toRowsOptions } from "../../../lib/rows/row_arguments.ts";
import { PROCESS_INFO } from "../../support/command_line.ts";

/** The roles of a server, with the options that make one. The transport and TLS are options like others. */
export const ROLES = {
  plain: "",
  origin: "db={db} rows=row:,product:",
  node: "origin={origin} rows=row:,product:",
  standby: "db={db} rows=row:,product: standby=on",
  log: "db={db} rows=row:,product: follow=on",
  views: "db={db} rows=row:,product: follow=on views={views}",
} as const;

export type Role = keyof typeof ROLES;

/** Roles by the words of the table. */
const ROLES_OF: Readonly<Record<string, readonly Role[]>> = {
  any: ["plain", "origin", "node", "standby", "log", "views"],
  rows: ["origin", "node", "standby", "log", "views"],
  db: ["origin", "standby", "log", "views"],
  active: ["origin", "log", "views"],
  log: ["log", "views"],
  node: ["node"],
};

/** One option. */
export type RoleRow = readonly [
  name: string,
  /** The roles in which it means something: a word of `ROLES_OF`; with `native` only with this transport. */
  roles: string,
  /** Options without which it means nothing, with a value of each. */
  beside: string,
  /** Values, separated by spaces; `+name=value` behind one: it needs that option, too. "": prints and exits. */
  values: string,
  /**
   * The roles in which it means nothing: words of the refusal, alternatives separated by `|`; `told`: without effect,
   * which the log says; `told under name=value`: so beside that option only; `silent`: without effect. "": it means
   * something everywhere.
   */
  otherwise: string,
];

/** The file has the key, too. */
const TLS = "enable-ssl=on ssl-chain-cert={cert}";
const JOURNAL = "state-dir={state}";
const SOCKET = "told under unix-socket={socket}";

// deno-fmt-ignore
export const ROLE_ROWS: readonly RoleRow[] = [
  // name                   roles     beside                          values                                       otherwise
  ["port",                  "any",    "",                             "-1",                                        SOCKET],
  ["listen",                "any",    "",                             "127.0.0.1 127.0.0.1,127.0.0.2",             SOCKET],
  ["udp-port",              "any",    "",                             "-1",                                        SOCKET],
  ["udp-reply-max",         "any",    "udp-port=-1",                  "4k 1m",                                     "needs -U"],
  ["unix-socket",           "any",    "",                             "{socket}",                                  ""],
  ["unix-mask",             "any",    "unix-socket={socket}",         "700 770",                                   "told"],
  ["protocol",              "any",    "",                             "auto ascii binary",                         ""],
  ["io",                    "any",    "",                             "native portable",                           ""],
  ["io-uring",              "native", "",                             "auto off",                                  "silent"],
  ["memory-limit",          "any",    "",                             "16m 128m",                                  ""],
  ["memlimit-max",          "any",    "",                             "256m",                                      ""],
  ["max-item-size",         "any",    "",                             "256k 2m",                                   ""],
  ["disable-evictions",     "any",    "",                             "on",                                        ""],
  ["slab-growth-factor",    "any",    "",                             "1.05 1.5",                                  ""],
  ["slab-min-size",         "any",    "",                             "8 200",                                     ""],
  ["slab-layout",           "any",    "",                             "leased memcached",                          ""],
  ["threads",               "any",    "",                             "1 2 3",                                     ""],
  ["conn-limit",            "any",    "",                             "20",                                        ""],
  ["maxconns-fast",         "any",    "",                             "on off",                                    ""],
  ["warm-up",               "any",    "",                             "on off",                                    ""],
  ["max-reqs-per-event",    "any",    "",                             "1 20",                                      ""],
  ["listen-backlog",        "any",    "",                             "10",                                        ""],
  ["idle-timeout",          "any",    "",                             "600",                                       SOCKET],
  ["send-timeout",          "any",    "",                             "30",                                        ""],
  ["enable-ssl",            "any",    "ssl-chain-cert={cert}",        "on",                                        SOCKET],
  ["ssl-chain-cert",        "any",    "enable-ssl=on",                "{cert}",                                    "told"],
  ["ssl-key",               "any",    TLS,                            "{key}",                                     "told"],
  ["ssl-keyformat",         "native", TLS,                            "1 2+ssl-key={der}",                         "told"],
  ["ssl-verify-mode",       "native", `${TLS} ssl-ca-cert={cert}`,    "0 1 2",                                     "told"],
  ["ssl-ca-cert",           "native", TLS,                            "{cert}",                                    "told"],
  ["ssl-ciphers",           "native", TLS,                            "ECDHE-ECDSA-AES128-GCM-SHA256",                              "told"],
  ["ssl-min-version",       "native", TLS,                            "2 3",                                       "told"],
  ["ssl-session-cache",     "native", TLS,                            "on",                                        "told"],
  ["ssl-kernel-tls",        "native", TLS,                            "on",                                        "told"],
  ["ssl-handshake-timeout", "native", TLS,                            "30",                                        "told"],
  ["disable-cas",           "any",    "",                             "on",                                        ""],
  ["disable-flush-all",     "any",    "",                             "on",                                        ""],
  ["disable-dumping",       "any",    "",                             "on",                                        ""],
  ["disable-watch",         "any",    "",                             "on",                                        ""],
  ["enable-shutdown",       "any",    "",                             "on",                                        ""],
  ["test-commands",         "any",    "",                             "on",                                        ""],
  ["stats-delimiter",       "any",    "",                             "/",                                         ""],
  ["compat",                "any",    "",                             "memcached yrmcds",                          ""],
  ["auth-file",             "any",    "",                             "{users}",                                   ""],
  ["enable-sasl",           "any",    "auth-file={users}",            "on",                                        "needs -Y"],
  ["auth-timeout",          "any",    "auth-file={users}",            "60",                                        "needs -Y"],
  ["require-auth",          "any",    "",                             "on",                                        ""],
  ["lease-flag",            "any",    "",                             "3333 40000000:40000000",                    ""],
  ["lease-time",            "any",    "",                             "5",                                         ""],
  ["lease-entries",         "any",    "",                             "0 1000",                                    ""],
  ["strict",                "any",    "",                             "strict:",                                    ""],
  ["state-dir",             "any",    "",                             "{state}",                                   ""],
  ["tokens",                "any",    "",                             `journal+${JOURNAL} volatile+token-quarantine=0`, "needs --state-dir"],
  ["token-entries",         "any",    JOURNAL,                        "100",                                       "needs --state-dir, --tokens volatile or --db"],
  ["token-quarantine",      "any",    "tokens=volatile",              "0",                                         "needs --tokens volatile"],
  ["token-recover",         "any",    JOURNAL,                        "refuse quarantine drop",                    "needs --state-dir"],
  ["allow-token-drop",      "any",    "",                             "on",                                        ""],
  ["db",                    "db",     "",                             "{db}",                                      "give one of them"],
  ["rows",                  "rows",   "",                             "row:,product: row:,product:,other:",                          "needs --db"],
  ["row-expiry",            "rows",   "",                             "refuse ignore column",                      "needs --db"],
  ["expiry-column",         "db",     "row-expiry=column",            "expires until",                             "needs --db|needs --row-expiry column"],
  ["standby",               "db",     "",                            "on",                                        "needs --db"],
  ["take-over",             "active", "",                             "on",                                        "needs --db|give one of them"],
  ["member-time",           "db",     "",                             "500 2000",                                  "needs --db"],
  ["member-drift",          "db",     "",                             "0 20",                                      "needs --db"],
  ["origin",                "node",   "",                             "{origin}",                                  "give one of them"],
  ["node-name",             "node",   "",                             "anna",                                      "needs --origin"],
  ["origin-login",          "node",   "",                             "{login}",                                   "needs --origin"],
  ["origin-ca-cert",        "node",   "",                             "{cert}",                                    "needs --origin"],
  ["follow",                "db",     "",                             "on",                                        "needs --db"],
  ["temporary-slot",        "log",    "db={postgres}",                "on",                                        "needs --db|needs --follow|told"],
  ["views",                 "log",    "",                             "{views}",                                   "needs --db|needs --follow"],
  ["lag-max",               "log",    "",                             "60000",                                     "needs --db|needs --follow"],
  ["verify",                "rows",   "",                             "0 1",                                       "needs --db"],
  ["stale",                 "db",     "",                             "quarantine",                                "needs --db"],
  ["lag-quarantine",        "log",    "",                             "on",                                        "needs --db|needs --follow"],
  ["table",                 "db",     "",                             "kv goods",                                  "needs --db"],
  ["key-column",            "db",     "",                             "name",                                      "needs --db"],
  ["value-column",          "db",     "",                             "content",                                   "needs --db"],
  ["version-column",        "db",     "",                             "edition",                                   "needs --db"],
  ["flags-column",          "db",     "",                             "marks",                                     "needs --db"],
  ["db-connections",        "db",     "db={postgres}",                "2",                                         "needs --db|told"],
  ["db-timeout",            "rows",   "",                             "20000",                                     "needs --db"],
  ["applied-ttl",           "db",     "",                             "60",                                        "needs --db"],
  ["lock-limit",            "any",    "",                             "100",                                       ""],
  ["lock-limit-per-conn",   "any",    "",                             "10",                                        ""],
  ["lock-waiters",          "any",    "",                             "5",                                         ""],
  ["lock-reply",            "any",    "",                             "locked client_error",                       ""],
  ["lock-idle-timeout",     "any",    "",                             "600",                                       ""],
  ["snapshot",              "any",    "",                             "{snapshot}",                                ""],
  ["memory-file",           "any",    "",                             "{snapshot}",                                ""],
  ["snapshot-required",     "any",    "snapshot={snapshot}",          "on",                                        "needs --snapshot"],
  ["counter-port",          "any",    "",                             "-1",                                        ""],
  ["counter-conn-limit",    "any",    "counter-port=-1",              "10",                                        "needs --counter-port"],
  ["counter-memory",        "any",    "counter-port=-1",              "1m",                                        "needs --counter-port"],
  ["counter-interval",      "any",    "counter-port=-1",              "60",                                        "needs --counter-port"],
  ["admin",                 "any",    "",                             "0 127.0.0.1:0",                             ""],
  ["metrics",               "any",    "",                             "0",                                         ""],
  ["admin-actions",         "any",    "admin=0 auth-file={users}",    "on",                                        "needs --admin|needs -Y"],
  ["watcher-logbuf-size",   "any",    "",                             "64",                                        "told under disable-watch=on"],
  ["pidfile",               "any",    "",                             "{pid}",                                     ""],
  ["log-format",            "any",    "",                             "text json",                                 ""],
  ["verbose",               "any",    "",                             "on",                                        ""],
  ["extended",              "any",    "",                             "modern,tail_repair_time=60",                ""],
  ["help",                  "any",    "",                             "",                                          ""],
  ["version",               "any",    "",                             "",                                          ""],
  ["license",               "any",    "",                             "",                                          ""],
];

/** Two options that exclude each other, with a value where only that one does, unless a third is given. */
// deno-fmt-ignore
export const EXCLUSIONS: readonly (readonly [one: string, other: string, unless: string])[] = [
  // one                 other                 unless
  ["auth-file",          "udp-port",           ""],
  ["auth-file",          "protocol=auto",      "enable-sasl"],
  ["auth-file",          "protocol=binary",    "enable-sasl"],
  ["enable-sasl",        "protocol=ascii",     ""],
  ["disable-cas",        "lease-flag",         ""],
  ["lease-flag",         "lease-entries=0",    ""],
  ["db",                 "lease-entries=0",    ""],
  ["origin",             "lease-entries=0",    ""],
  ["strict",             "lease-entries=0",    ""],
  ["state-dir",          "tokens=volatile",    ""],
  ["snapshot",           "memory-file",        ""],
  ["admin",              "metrics",            ""],
  ["standby",            "take-over",          ""],
];

/** Values of options by name. */
export type Assignments = ReadonlyMap<string, string>;

/** Reads `name=value name=value`. */
export function assignmentsOf(text: string): Map<string, string> {
  const words = text.split(" ").filter((word) => word !== "");
  return new Map(words.map((word): [string, string] => {
    const at = word.indexOf("=");
    return [word.slice(0, at), word.slice(at + 1)];
  }));
}

const ROWS_BY_NAME = new Map(ROLE_ROWS.map((row) => [row[0], row]));
const OPTIONS = new Map<string, OptionRow>(
  SERVER_OPTIONS.flatMap(([, rows]): readonly OptionRow[] => rows).map((row) => [row[0], row]),
);

/** The roles in which an option means something. */
export function rolesOf([, roles]: RoleRow): readonly Role[] {
  return ROLES_OF[roles] ?? ROLES_OF.any!;
}

/** An option with one of its values, and what it needs beside it. */
export interface Choice {
  readonly name: string;
  readonly value: string;
  readonly beside: Assignments;
}

/** All values of an option. */
export function choicesOf([name, , beside, values]: RoleRow): Choice[] {
  return values.split(" ").filter((text) => text !== "").map((text) => {
    const [value = "", ...more] = text.split("+").length > 1 && /\+[a-z-]+=/.test(text)
      ? text.split(/\+(?=[a-z-]+=)/)
      : [text];
    return { name, value, beside: assignmentsOf(`${beside} ${more.join(" ")}`) };
  });
}

/** Adds an option, what it needs, and what that needs. @returns Null: the value contradicts those given. */
export function withChoice(
  given: Assignments,
  { name, value, beside }: Choice,
): Map<string, string> | null {
  const known = given.get(name);
  if (known !== undefined && known !== value) return null;
  let all: Map<string, string> | null = new Map(given).set(name, value);
  // Those of this value go first: they differ from those that another option would choose.
  for (const [needed, its] of beside) {
    if (all.has(needed)) {
      if (!isFree(needed) && all.get(needed) !== its) return null;
      continue;
    }
    const row = ROWS_BY_NAME.get(needed)!;
    const choice = choicesOf(row).find((each) => each.value === its) ??
      { name: needed, value: its, beside: new Map() };
    all = withChoice(all, choice);
    if (all === null) return null;
  }
  return all;
}

/** Whether any value of the option does for those that need it. */
function isFree(name: string): boolean {
  return name === "db" || name === "admin";
}

/** Whether no two of the options exclude each other. */
export function isAllowed(role: Role, given: Assignments): boolean {
  const has = (text: string): boolean => {
    const [name = "", value] = text.split("=");
    return value === undefined ? given.has(name) : given.get(name) === value;
  };
  if (EXCLUSIONS.some(([one, other, unless]) => has(one) && has(other) && !given.has(unless))) {
    return false;
  }
  const isPortable = given.get("io") === "portable";
  for (const name of given.keys()) {
    const row = ROWS_BY_NAME.get(name)!;
    if (isPortable && row[1] === "native") return false;
    if (!rolesOf(row).includes(role)) return false;
  }
  return true;
}

/** The command line of options. */
export function wordsOf(given: Assignments): string[] {
  return [...given].flatMap(([name, value]) => {
    const kind = OPTIONS.get(name)?.[2];
    if (kind === "switch" || kind === "count") {
      return [value === "off" ? `--no-${name}` : `--${name}`];
    }
    return [`--${name}`, value];
  });
}

/** An option as messages name it. */
export function flagOf(name: string): string {
  const letter = OPTIONS.get(name)?.[1] ?? "";
  return letter === "" || letter === "-o" ? `--${name}` : `-${letter} (--${name})`;
}

/** A command line, read. */
export interface ReadWords {
  readonly errors: readonly string[];
  /** Options of which the log says that they have no effect. */
  readonly told: readonly string[];
  readonly nativeOnly: readonly string[];
}

/** Reads a command line as the server does before it opens anything. */
export function readWords(words: readonly string[]): ReadWords {
  const command = readCommand(words, PROCESS_INFO);
  if (command.kind === "print") return { errors: [], told: [], nativeOnly: [] };
  if (command.kind === "refuse") return { errors: command.errors, told: [], nativeOnly: [] };
  const errors: string[] = [];
  const { db, origin, ignored, nativeOnly } = command.options;
  if (origin.length > 0) toNodeOptions(command.options, errors);
  else if (db !== "") toRowsOptions(command.options, errors);
  return { errors, told: ignored.map(({ option }) => option), nativeOnly };
}

/** Puts sample paths and addresses in. */
export function sampled(words: readonly string[]): string[] {
  const samples: Readonly<Record<string, string>> = {
    db: "sqlite:/nowhere/rows.db",
    postgres: "postgres://user@127.0.0.1/rows",
    origin: "127.0.0.1:11311",
  };
  return words.map((word) =>
    word.replaceAll(/\{(\w+)\}/g, (_, name) => samples[name] ?? `/nowhere/${name}`)
  );
}

/** The names of the options that have an effect somewhere. */
export function optionNames(): string[] {
  return [...OPTIONS.values()].filter((row) => row[8] === undefined).map(([name]) => name);
}
