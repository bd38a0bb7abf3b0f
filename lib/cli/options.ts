import type { Settings, WireProtocol } from "../../protocol/settings.ts";
import { type TunableName, TUNABLES } from "../../protocol/tunables.ts";
import type { StoreOptions } from "../../store/limits.ts";
import type { ProcessInfo } from "../process/info.ts";
import { type BoundTransport, type Listen, type TcpListen, tlsOf } from "../net/transport.ts";
import type { IgnoredOption, ServerArguments } from "./argv.ts";
import { checkAuthentication, protocolOf } from "./auth_options.ts";
import { checkNeeds, optionsWithoutEffect } from "./option_needs.ts";
import { fieldOf, type OptionRow, SERVER_OPTIONS } from "./option_table.ts";
import { type ListenAddress, readAdminAddress, readListenAddress } from "./listen.ts";
import { toLeaseFlag, toStoreOptions } from "./store_options.ts";
import { ignoredTlsOptions, nativeOnlyTls, toTlsSettings } from "./tls_options.ts";
import { type OptionValue, valueOr } from "./values.ts";

/** The fields of `Settings` that are made of several values, or of facts of the process. */
type ComputedSetting =
  | ("version" | "runtime" | "pid" | "tcpPort" | "udpPort" | "listenAddresses" | "usesIoUring")
  | ("wireProtocol" | "detailEnabled" | "tls" | "leaseFlag" | "leaseMask" | "snapshotPath");

/** What is made of several values. It takes the place of values of the same name. */
interface ComputedOptions extends Pick<Settings, ComputedSetting> {
  readonly listens: readonly Listen[];
  /** The addresses of the counter protocol. */
  readonly counterListens: readonly TcpListen[];
  /** The address of `--admin`; null: none. */
  readonly admin: TcpListen | null;
  readonly store: StoreOptions;
  /** Worker threads. */
  readonly threads: number;
  /** Prefixes of the keys that are rows, without those of views before `withRowPrefixes`. `[""]`: all keys. */
  readonly prefixes: readonly string[];
  /** Initial values of settings that commands may change. */
  readonly tunables: readonly (readonly [TunableName, number])[];
  readonly ignored: readonly IgnoredOption[];
  /** Options of TLS that the portable transport does not support, as the command line names them. */
  readonly nativeOnly: readonly string[];
}

/**
 * The complete configuration of the server: the values of all options, and what is made of them. Plain data, so that it
 * can be posted to workers. A part of the server takes it as an interface of the fields that the part needs:
 * `Settings`, `TransportOptions`, `CounterOptions` and others. A port of 0 is not bound yet: see `withBound`.
 */
export interface ServerOptions
  extends Omit<ServerArguments["values"], keyof ComputedOptions>, ComputedOptions {}

/** Room beside the item in the replies to a datagram with a `get`: lines, and replies to further requests. */
const UDP_LINE_BYTES = 4096;

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
  const { values, given } = parsed;
  const { version, runtime, pid } = processInfo;
  const addresses = toAddresses(parsed, errors);
  const wireProtocol = protocolOf(parsed, errors);
  const listens = toListens(parsed, addresses, wireProtocol, errors);
  const counterListens = toCounterListens(parsed, addresses);
  const admin = toAdmin(parsed, errors);
  checkPorts(parsed, listens, counterListens, admin, errors);
  checkAuthentication(parsed, listens, counterListens, admin, errors);
  checkNeeds(parsed, errors);
  const leaseFlag = toLeaseFlag(parsed, errors);
  const tls = toTlsSettings(parsed, errors);
  const prefixes = toRowPrefixes(parsed);
  const store = toStoreOptions(parsed, leaseFlag, prefixes, processInfo, errors);
  return {
    ...values,
    ...leaseFlag,
    version,
    runtime,
    pid,
    listens,
    counterListens,
    admin,
    tcpPort: portOf(listens, "tcp"),
    udpPort: portOf(listens, "udp"),
    listenAddresses: values.unixSocket === "" ? values.listen.join(",") : null,
    usesIoUring: false,
    wireProtocol,
    statsDelimiter: values.statsDelimiter.slice(0, 1) || ":",
    detailEnabled: given.has("stats-delimiter"),
    udpReplyMaxBytes: values.udpReplyMaxBytes || values.maxItemSizeBytes + UDP_LINE_BYTES,
    tls,
    store,
    threads: store.threads,
    prefixes,
    snapshotPath: values.snapshot || values.memoryFile,
    tunables: toTunables(parsed),
    ignored: [
      ...parsed.ignored,
      ...ignoredPort(parsed, addresses),
      ...ignoredTlsOptions(parsed),
      ...optionsWithoutEffect(parsed, listens, admin),
    ],
    nativeOnly: nativeOnlyTls(parsed, listens.map(tlsOf), admin?.tls),
  };
}

/** Returns the prefixes of keys that are rows, without those of views, which are in their file. */
function toRowPrefixes({ values }: ServerArguments): readonly string[] {
  if (values.rows.length > 0) return values.rows.map((prefix) => prefix === "*" ? "" : prefix);
  return values.views === "" ? [""] : [];
}

/** Returns the options with further prefixes of keys that are rows. */
export function withRowPrefixes(options: ServerOptions, more: readonly string[]): ServerOptions {
  const { prefixes: own, store } = options;
  const isNew = (prefix: string): boolean => !own.some((each) => prefix.startsWith(each));
  const prefixes = [...own, ...more.filter(isNew)];
  return {
    ...options,
    prefixes,
    store: { ...store, rows: store.rows && { ...store.rows, prefixes } },
  };
}

/** Returns the options with the bound ports, and with the transport's choice of io_uring. */
export function withBound(
  options: ServerOptions,
  { listens, usesIoUring }: Pick<BoundTransport, "listens" | "usesIoUring">,
): ServerOptions {
  return {
    ...options,
    tcpPort: portOf(listens, "tcp"),
    udpPort: portOf(listens, "udp"),
    usesIoUring,
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
  const path = values.unixSocket;
  if (path !== "") checkSocketPath(path, errors);
  if (path !== "") return [{ kind: "unix", path, mode: values.unixMask, protocol }];
  const udpPort = values.udpPort;
  // As in memcached: -U without -p sets the TCP port too.
  const tcpPort = udpPort !== 0 && !given.has("port") ? udpPort : values.port;
  const listens: Listen[] = [];
  for (const { hostname, port, protocol: own, tls } of addresses) {
    const spoken = own ?? protocol;
    if (port !== undefined || tcpPort !== 0) {
      const listen = { kind: "tcp", hostname, protocol: spoken } as const;
      const mode = values.enableSsl ? tls ?? "tls" : "notls";
      listens.push({
        ...listen,
        port: Math.max(0, port ?? tcpPort),
        ...mode === "notls" ? {} : { tls: mode },
      });
    }
    if (!values.enableSsl && (tls === "btls" || tls === "mtls")) {
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
  if (values.unixSocket !== "") return [];
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

function toCounterListens(
  { values }: ServerArguments,
  addresses: readonly ListenAddress[],
): TcpListen[] {
  if (values.counterPort === 0) return [];
  const port = Math.max(0, values.counterPort);
  const hostnames = new Set(addresses.map(({ hostname }) => hostname));
  return Array.from(
    hostnames,
    (hostname) => ({ kind: "tcp", hostname, port, protocol: "counters" }),
  );
}

/** Reads the address of `--admin`; null: none, or a malformed one, which adds an error. */
function toAdmin(
  { values: { admin, metrics, enableSsl } }: ServerArguments,
  errors: string[],
): TcpListen | null {
  if (admin !== "" && metrics !== "") {
    errors.push("--metrics: the former name of --admin; leave one of them out");
  }
  const text = admin || metrics;
  if (text === "") return null;
  const label = `--${admin === "" ? "metrics" : "admin"} ${JSON.stringify(text)}`;
  return valueOr(null, () => readAdminAddress(text, enableSsl), errors, label);
}

/** Keeps the values of ignored settings, because `stats settings` reports them. */
function toTunables({ values, given }: ServerArguments): (readonly [TunableName, number])[] {
  const all: Readonly<Record<string, OptionValue>> = values;
  const rows = SERVER_OPTIONS.flatMap(([, rows]): readonly OptionRow[] => rows);
  const names: ReadonlySet<string> = given;
  const tunables: [TunableName, number][] = [];
  for (const [name] of TUNABLES) {
    const row = rows.find(([option]) => option === name.replaceAll("_", "-"));
    if (row !== undefined && names.has(row[0])) tunables.push([name, Number(all[fieldOf(row)])]);
  }
  if (given.has("temporary-ttl")) tunables.push(["temp_lru", 1]);
  return tunables;
}
