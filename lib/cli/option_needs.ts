import { type Listen, type TcpListen, tlsOf } from "../net/transport.ts";
import type { IgnoredOption, ServerArguments } from "./argv.ts";
import type { RowOf, SERVER_OPTIONS } from "./option_table.ts";
import { tokenPersistence } from "./store_options.ts";

type Values = ServerArguments["values"];
type Name = RowOf<typeof SERVER_OPTIONS>[0];

/** Options of an origin. */
const OF_ORIGIN = [
  ...["table", "key-column", "value-column", "version-column", "flags-column"] as const,
  ...["expiry-column", "db-connections", "applied-ttl", "member-time", "member-drift"] as const,
  ...["standby", "take-over", "follow", "temporary-slot"] as const,
  ...["lag-max", "lag-quarantine", "views", "stale"] as const,
] as const;

const isNode = (values: Values): boolean => values.origin.length > 0;
const isOrigin = (values: Values): boolean => values.db !== "";

/** The options that mean nothing unless `isMet`. The server's own options only: a command line of memcached starts. */
const NEEDS:
  readonly (readonly [names: readonly Name[], isMet: (values: Values) => boolean, need: string])[] =
    [
      [["udp-reply-max"], (values) => values.udpPort !== 0, "-U (--udp-port)"],
      [["auth-timeout"], (values) => values.authFile !== "", "-Y (--auth-file)"],
      [["token-quarantine"], (values) => values.tokens === "volatile", "--tokens volatile"],
      [["token-recover"], (values) => tokenPersistence(values) === "journal", "--state-dir"],
      [
        ["token-entries"],
        (values) => tokenPersistence(values) !== "off" || isOrigin(values),
        "--state-dir, --tokens volatile or --db",
      ],
      [
        ["counter-conn-limit", "counter-memory", "counter-interval"],
        (values) => values.counterPort !== 0,
        "--counter-port",
      ],
      [["node-name", "origin-login", "origin-ca-cert"], isNode, "--origin"],
      [OF_ORIGIN, isOrigin, "--db"],
      [
        ["rows", "row-expiry", "db-timeout", "verify"],
        (values) => isOrigin(values) || isNode(values),
        "--db or --origin",
      ],
      [
        ["expiry-column"],
        (values) => !isOrigin(values) || values.rowExpiry === "column",
        "--row-expiry column",
      ],
      [
        ["temporary-slot", "lag-max", "lag-quarantine", "views"],
        (values) => !isOrigin(values) || values.follow,
        "--follow",
      ],
      [["admin-actions"], (values) => values.admin !== "" || values.metrics !== "", "--admin"],
      [
        ["admin-actions"],
        (values) => values.authFile !== "",
        "-Y (--auth-file): only users of the level admin may act",
      ],
      [
        ["snapshot-required"],
        (values) => values.snapshot !== "" || values.memoryFile !== "",
        "--snapshot",
      ],
    ];

/** Refuses options that mean nothing without another one. */
export function checkNeeds({ values, given }: ServerArguments, errors: string[]): void {
  for (const [names, isMet, need] of NEEDS) {
    if (isMet(values)) continue;
    for (const name of names) if (given.has(name)) errors.push(`--${name}: needs ${need}`);
  }
  const hasFolder = values.stateDir !== "";
  if (given.has("tokens") && values.tokens === "journal" && !hasFolder) {
    errors.push("--tokens journal: needs --state-dir");
  }
  if (values.tokens === "volatile" && hasFolder) {
    errors.push("--state-dir and --tokens volatile: give one of them");
  }
  if (isOrigin(values) && isNode(values)) errors.push("--origin and --db: give one of them");
  if (values.standby && values.takeOver) errors.push("--standby and --take-over: give one of them");
  const hasNoLeases = given.has("lease-entries") && values.leaseEntries === 0;
  const leave = "--lease-entries 0: rows are cached and locked under leases; leave that option out";
  if (hasNoLeases && isOrigin(values)) errors.push(`--db and ${leave}`);
  else if (hasNoLeases && isNode(values)) errors.push(`--origin and ${leave}`);
  if (hasNoLeases && given.has("strict")) {
    errors.push(
      "--strict and --lease-entries 0: no lease could exist, so nothing could be stored; leave one of the two options out",
    );
  }
  if (values.snapshot !== "" && values.memoryFile !== "") {
    errors.push("--memory-file: memcached's name of --snapshot; leave one of them out");
  }
}

/** Returns the options that have no effect beside the others. */
export function optionsWithoutEffect(
  { values, given }: ServerArguments,
  listens: readonly Listen[],
  admin: TcpListen | null,
): IgnoredOption[] {
  const found: IgnoredOption[] = [];
  const tell = (name: Name, option: string, reason: string): void => {
    if (given.has(name)) found.push({ option, reason });
  };
  if (values.unixSocket === "") {
    tell("unix-mask", "-a (--unix-mask)", "there is no Unix socket without -s (--unix-socket)");
  } else {
    const reason = "with -s (--unix-socket) the server has no TCP and no UDP port for the cache";
    tell("port", "-p (--port)", reason);
    tell("udp-port", "-U (--udp-port)", reason);
    tell("idle-timeout", "--idle-timeout", reason);
    if (values.counterPort === 0) tell("listen", "-l (--listen)", reason);
  }
  if (values.enableSsl && admin?.tls === undefined && listens.every(isPlain)) {
    tell("enable-ssl", "-Z (--enable-ssl)", "no port of this server has TLS");
  }
  if (values.disableWatch) {
    tell("watcher-logbuf-size", "--watcher-logbuf-size", "-W (--disable-watch) refuses watchers");
  }
  if (values.db.startsWith("sqlite:")) {
    tell("db-connections", "--db-connections", "SQLite has one connection");
    tell("temporary-slot", "--temporary-slot", "SQLite has no replication slots");
  }
  return found;
}

function isPlain(listen: Listen): boolean {
  return tlsOf(listen) === undefined;
}
