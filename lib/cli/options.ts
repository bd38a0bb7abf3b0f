import type { Settings, TlsSettings, WireProtocol } from "../../protocol/settings.ts";
import { type TunableName, TUNABLES } from "../../protocol/tunables.ts";
import type { StoreOptions } from "../../store/limits.ts";
import type { ProcessInfo } from "../process/info.ts";
import type { LogFormat } from "../process/log.ts";
import type { JournalOptions } from "../journal/journal_messages.ts";
import type { SnapshotOptions } from "../snapshot/snapshot.ts";
import type { CounterOptions } from "../counters/service.ts";
import {
  type BoundTransport,
  type Listen,
  type TcpListen,
  tlsOf,
  type TransportOptions,
} from "../net/transport.ts";
import type { IgnoredOption, ServerArguments } from "./argv.ts";
import { checkAuthentication, protocolOf } from "./auth_options.ts";
import { checkNeeds, optionsWithoutEffect } from "./option_needs.ts";
import { type ListenAddress, readAdminAddress, readListenAddress } from "./listen.ts";
import { type LeaseFlag, tokenPersistence, toLeaseFlag, toStoreOptions } from "./store_options.ts";
import { ignoredTlsOptions, nativeOnlyTls, toTlsSettings } from "./tls_options.ts";
import { type OptionValue, valueOr } from "./values.ts";

/** The command line, for rows. */
export type RowArguments = Pick<ServerArguments, "values" | "given">;

/** The complete configuration of the server. */
export interface ServerOptions {
  readonly listens: readonly Listen[];
  readonly io: "auto" | BoundTransport["name"];
  readonly store: StoreOptions;
  readonly transport: TransportOptions;
  /** Whether threads execute sample requests before they serve. */
  readonly warmUp: boolean;
  /** Null: no counter protocol. */
  readonly counters: CounterOptions | null;
  /** The address of `--admin`; null: none. */
  readonly admin: TcpListen | null;
  /** Whether users may act on the dashboard. */
  readonly adminActions: boolean;
  /** A port of 0 is not bound yet: see `withBound`. */
  readonly settings: Settings;
  /** Initial values of settings that commands may change. */
  readonly tunables: readonly (readonly [TunableName, number])[];
  /** The journal of update tokens; null: none. */
  readonly journal: JournalOptions | null;
  /** `--snapshot`; null: none. */
  readonly snapshot: SnapshotOptions | null;
  /** With `--db`: options of rows, which lib/rows reads; null: there is no database. */
  readonly rows: RowArguments | null;
  /** Path; "": none. */
  readonly pidFile: string;
  readonly logFormat: LogFormat;
  readonly ignored: readonly IgnoredOption[];
  /** Options of TLS that the portable transport does not support, as the command line names them. */
  readonly nativeOnly: readonly string[];
  /** `-u`: the user that memcached would switch to; "": none. */
  readonly user: string;
}

/**
 * Makes the configuration from a parsed command line.
 *
 * @param errors Receives a message for every contradiction.
 */
export function toServerOptions(
  parsed: ServerArguments,
  processInfo: ProcessInfo,
  errors: string[],
): ServerOptions {
  const { values } = parsed;
  const addresses = toAddresses(parsed, errors);
  const protocol = protocolOf(parsed, errors);
  const listens = toListens(parsed, addresses, protocol, errors);
  const counters = toCounters(parsed, addresses);
  const admin = toAdmin(parsed, errors);
  checkPorts(parsed, listens, counters?.listens ?? [], admin, errors);
  checkAuthentication(parsed, listens, counters?.listens ?? [], admin, errors);
  checkNeeds(parsed, errors);
  const leaseFlag = toLeaseFlag(parsed, errors);
  const tls = toTlsSettings(parsed, errors);
  return {
    listens,
    io: values.io,
    store: toStoreOptions(parsed, leaseFlag, processInfo, errors),
    transport: toTransportOptions(parsed, tls),
    warmUp: values["warm-up"],
    counters,
    admin,
    adminActions: toAdminActions(parsed, errors),
    settings: toSettings(parsed, leaseFlag, processInfo, listens, protocol, tls),
    tunables: toTunables(parsed),
    journal: toJournal(parsed),
    snapshot: toSnapshot(parsed, errors),
    rows: toRows(parsed, errors),
    pidFile: values.pidfile,
    logFormat: values["log-format"],
    ignored: [
      ...parsed.ignored,
      ...ignoredPort(parsed, addresses),
      ...ignoredTlsOptions(parsed),
      ...optionsWithoutEffect(parsed, listens, admin),
    ],
    nativeOnly: nativeOnlyTls(parsed, listens.map(tlsOf), admin?.tls),
    user: values.user,
  };
}

/** Room beside the item in the replies to a datagram with a `get`: lines, and replies to further requests. */
const UDP_LINE_BYTES = 4096;

function toTransportOptions(
  { values }: ServerArguments,
  tls: TlsSettings | null,
): TransportOptions {
  return {
    threads: values.threads,
    backlog: values["listen-backlog"],
    maxconnsFast: values["maxconns-fast"],
    idleTimeoutSec: values["idle-timeout"],
    sendTimeoutSec: values["send-timeout"],
    lockIdleTimeoutSec: values["lock-idle-timeout"],
    authTimeoutSec: values["auth-timeout"],
    ioUring: values["io-uring"],
    udpReplyMaxBytes: values["udp-reply-max"] || values["max-item-size"] + UDP_LINE_BYTES,
    tls,
  };
}

function toSettings(
  { values, given }: ServerArguments,
  leaseFlag: LeaseFlag,
  processInfo: ProcessInfo,
  listens: readonly Listen[],
  wireProtocol: WireProtocol,
  tls: TlsSettings | null,
): Settings {
  return {
    version: processInfo.version,
    runtime: processInfo.runtime,
    pid: processInfo.pid,
    connectionsMax: values["conn-limit"],
    tcpPort: portOf(listens, "tcp"),
    udpPort: portOf(listens, "udp"),
    listenAddresses: values["unix-socket"] === "" ? values.listen.join(",") : null,
    unixSocketPath: values["unix-socket"] || null,
    unixSocketMode: values["unix-mask"],
    verbosity: values.verbose,
    shutdownEnabled: values["enable-shutdown"],
    testCommandsEnabled: values["test-commands"],
    tls,
    threads: values.threads,
    statsDelimiter: values["stats-delimiter"].slice(0, 1) || ":",
    detailEnabled: given.has("stats-delimiter"),
    requestsPerEvent: values["max-reqs-per-event"],
    backlog: values["listen-backlog"],
    wireProtocol,
    maxconnsFast: values["maxconns-fast"],
    idleTimeoutSec: values["idle-timeout"],
    lockIdleTimeoutSec: values["lock-idle-timeout"],
    flushEnabled: !values["disable-flush-all"],
    stateDir: values["state-dir"] || null,
    snapshotPath: values.snapshot || values["memory-file"] || null,
    tokenQuarantineSec: values["token-quarantine"],
    tokenRecover: values["token-recover"],
    tokenDropEnabled: values["allow-token-drop"],
    dumpEnabled: !values["disable-dumping"],
    watchEnabled: !values["disable-watch"],
    leaseFlag: leaseFlag.flag,
    leaseMask: leaseFlag.mask,
    leaseTimeSec: values["lease-time"],
    authFile: values["auth-file"] || null,
    sasl: values["enable-sasl"],
    ioUring: false,
    compat: values.compat,
    lockReply: values["lock-reply"],
    lruMaintainer: values["lru-maintainer"],
  };
}

/** Returns the settings with the bound ports, and with the transport's choice of io_uring. */
export function withBound(
  settings: Settings,
  { listens, usesIoUring }: Pick<BoundTransport, "listens" | "usesIoUring">,
): Settings {
  return {
    ...settings,
    tcpPort: portOf(listens, "tcp"),
    udpPort: portOf(listens, "udp"),
    ioUring: usesIoUring,
  };
}

function portOf(listens: readonly Listen[], kind: "tcp" | "udp"): number {
  for (const listen of listens) {
    if (listen.kind === kind && listen.protocol !== "counters") return listen.port;
  }
  return 0;
}

/** Reads the addresses of `-l`; a malformed one adds an error. */
function toAddresses({ values }: ServerArguments, errors: string[]): ListenAddress[] {
  const addresses = values.listen.map((text) =>
    valueOr(null, () => readListenAddress(text), errors, `-l (--listen) ${JSON.stringify(text)}`)
  );
  return addresses.filter((address) => address !== null);
}

function toListens(
  parsed: ServerArguments,
  addresses: readonly ListenAddress[],
  protocol: WireProtocol,
  errors: string[],
): Listen[] {
  const { values, given } = parsed;
  const path = values["unix-socket"];
  if (path !== "") checkSocketPath(path, errors);
  if (path !== "") return [{ kind: "unix", path, mode: values["unix-mask"], protocol }];
  const udpPort = values["udp-port"];
  // As in memcached: -U without -p sets the TCP port too.
  const tcpPort = udpPort !== 0 && !given.has("port") ? udpPort : values.port;
  const listens: Listen[] = [];
  for (const { hostname, port, protocol: own, tls } of addresses) {
    const spoken = own ?? protocol;
    if (port !== undefined || tcpPort !== 0) {
      const listen = { kind: "tcp", hostname, protocol: spoken } as const;
      const mode = values["enable-ssl"] ? tls ?? "tls" : "notls";
      listens.push({
        ...listen,
        port: Math.max(0, port ?? tcpPort),
        ...mode === "notls" ? {} : { tls: mode },
      });
    }
    if (!values["enable-ssl"] && (tls === "btls" || tls === "mtls")) {
      errors.push(`-l (--listen) ${tls}: needs -Z (--enable-ssl)`);
    }
    // Two ports of one address share its UDP socket.
    const isBound = listens.some((each) => each.kind === "udp" && each.hostname === hostname);
    if (udpPort !== 0 && !isBound) {
      listens.push({ kind: "udp", hostname, port: Math.max(0, udpPort), protocol: spoken });
    }
  }
  return listens;
}

/** Returns `-p` if it has no effect, because every address names its port. */
function ignoredPort(
  { values, given }: ServerArguments,
  addresses: readonly ListenAddress[],
): IgnoredOption[] {
  if (values["unix-socket"] !== "") return [];
  if (!given.has("port") || addresses.some(({ port }) => port === undefined)) return [];
  return [{ option: "-p (--port)", reason: "every address of -l (--listen) names its own port" }];
}

/** Finds ports of counters and of the admin port that another listener of this server needs. */
function checkPorts(
  { values: { metrics } }: ServerArguments,
  listens: readonly Listen[],
  counters: readonly TcpListen[],
  admin: TcpListen | null,
  errors: string[],
): void {
  const tcp = listens.filter((listen) => listen.kind === "tcp");
  for (const counter of counters) {
    if (tcp.some((each) => meet(each, counter))) {
      errors.push(`--counter-port ${counter.port}: the cache listens on this port; choose another`);
    }
  }
  if (admin !== null && [...tcp, ...counters].some((each) => meet(each, admin))) {
    const option = metrics === "" ? "--admin" : "--metrics";
    errors.push(
      `${option} ${admin.port}: the server has this port for another use; choose another`,
    );
  }
}

function meet(a: TcpListen, b: TcpListen): boolean {
  const isWildcard = [a, b].some(({ hostname }) => hostname === "0.0.0.0");
  return a.port !== 0 && a.port === b.port && (isWildcard || a.hostname === b.hostname);
}

/** The kernel keeps the path in `sockaddr_un.sun_path`: 108 bytes with the final 0 (unix(7)). */
const UNIX_PATH_BYTES_MAX = 107;

function checkSocketPath(path: string, errors: string[]): void {
  const { length } = new TextEncoder().encode(path);
  if (length <= UNIX_PATH_BYTES_MAX) return;
  errors.push(
    `-s (--unix-socket) "${path}": must be at most ${UNIX_PATH_BYTES_MAX} bytes long, is ${length}`,
  );
}

function toCounters(
  { values }: ServerArguments,
  addresses: readonly ListenAddress[],
): CounterOptions | null {
  const port = values["counter-port"];
  if (port === 0) return null;
  const hostnames = new Set(addresses.map(({ hostname }) => hostname));
  return {
    listens: Array.from(
      hostnames,
      (hostname) => ({ kind: "tcp", hostname, port: Math.max(0, port), protocol: "counters" }),
    ),
    connectionsMax: values["counter-conn-limit"],
    bytesMax: values["counter-memory"],
    intervalSec: values["counter-interval"],
  };
}

/** Reads the address of `--admin`; null: none, or a malformed one, which adds an error. */
function toAdmin(
  { values: { admin, metrics, "enable-ssl": hasTls } }: ServerArguments,
  errors: string[],
): TcpListen | null {
  if (admin !== "" && metrics !== "") {
    errors.push("--metrics: the former name of --admin; leave one of them out");
  }
  const text = admin || metrics;
  if (text === "") return null;
  const label = `--${admin === "" ? "metrics" : "admin"} ${JSON.stringify(text)}`;
  return valueOr(null, () => readAdminAddress(text, hasTls), errors, label);
}

/** Returns whether there are actions on the dashboard. They need users. */
function toAdminActions({ values }: ServerArguments, errors: string[]): boolean {
  if (!values["admin-actions"]) return false;
  if (values.admin === "" && values.metrics === "") errors.push("--admin-actions: needs --admin");
  if (values["auth-file"] === "") {
    errors.push("--admin-actions: needs -Y (--auth-file): only users of the level admin may act");
  }
  return true;
}

function toRows(parsed: ServerArguments, errors: string[]): RowArguments | null {
  const { values } = parsed;
  const isNode = values.origin.length > 0;
  if (isNode && values.db !== "") errors.push("--origin and --db: give one of them");
  return isNode || values.db !== "" ? parsed : null;
}

function toSnapshot({ values }: ServerArguments, errors: string[]): SnapshotOptions | null {
  const path = values.snapshot || values["memory-file"];
  const isRequired = values["snapshot-required"];
  if (path !== "") return { path, isRequired };
  if (isRequired) errors.push("--snapshot-required: needs --snapshot");
  return null;
}

function toJournal({ values }: ServerArguments): JournalOptions | null {
  if (tokenPersistence(values) !== "journal") return null;
  return {
    folder: values["state-dir"],
    recover: values["token-recover"],
  };
}

/** Keeps the values of ignored settings, because `stats settings` reports them. */
function toTunables({ values, given }: ServerArguments): (readonly [TunableName, number])[] {
  const all: Readonly<Record<string, OptionValue>> = values;
  const names: ReadonlySet<string> = given;
  const tunables: [TunableName, number][] = [];
  for (const [name] of TUNABLES) {
    const option = name.replaceAll("_", "-");
    if (names.has(option)) tunables.push([name, Number(all[option])]);
  }
  if (given.has("temporary-ttl")) tunables.push(["temp_lru", 1]);
  return tunables;
}
