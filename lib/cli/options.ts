import type { Settings, WireProtocol } from "../../protocol/settings.ts";
import { type TunableName, TUNABLES } from "../../protocol/tunables.ts";
import { firstIdAt } from "../../store/ids.ts";
import {
  KEY_LENGTH_MAX,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
  type StoreOptions,
} from "../../store/limits.ts";
import { leaseEntries, type LeaseFlag, NO_LEASE_FLAG, readLeaseFlag } from "./lease_options.ts";
import type { CounterServerOptions } from "../net/counter_server.ts";
import type { Listen, TransportOptions } from "../net/transport.ts";
import type { LogFormat } from "../log.ts";
import type { ParsedArguments } from "./argv.ts";
import { type ListenAddress, readListenAddress } from "./listen.ts";
import { sizeText } from "./values.ts";

/** What this run is like that no option says. */
export interface ProcessFacts {
  readonly version: string;
  /** In one word, like `deno-2.9.6`. */
  readonly runtime: string;
  readonly pid: number;
  /** The wall clock. */
  readonly unixMs: number;
  /** Two random numbers in 0..1. */
  readonly random: readonly [number, number];
}

export type IoChoice = "auto" | "portable" | "native";

/** Everything the server is started with. */
export interface ServerOptions {
  readonly listens: readonly Listen[];
  readonly io: IoChoice;
  readonly store: StoreOptions;
  readonly transport: TransportOptions;
  /** Null: no counter protocol. */
  readonly counters: CounterServerOptions | null;
  /** Ports of 0 in `listens` are not known here yet: the server fills them in. */
  readonly settings: Settings;
  /** Values `stats settings` shows and commands may change. */
  readonly tunables: readonly (readonly [TunableName, number])[];
  /** "": none. */
  readonly pidFile: string;
  readonly logFormat: LogFormat;
  /** Options that were accepted and mean nothing here. */
  readonly idle: readonly string[];
}

/**
 * Makes the server's options of what the command line says.
 *
 * @param errors Gets a sentence for everything that does not fit together.
 */
export function toServerOptions(
  parsed: ParsedArguments,
  facts: ProcessFacts,
  errors: string[],
): ServerOptions {
  const { values, extended, given } = parsed;
  const addresses = toAddresses(parsed, errors);
  const listens = toListens(parsed, addresses, errors);
  const threads = values.threads;
  const maxconnsFast = extended.maxconns_fast;
  const idleTimeoutSec = extended.idle_timeout;
  const lockIdleTimeoutSec = values["lock-idle-timeout"];
  const wireProtocol = values.protocol as WireProtocol;
  const leaseFlag = toLeaseFlag(parsed, errors);
  return {
    listens,
    io: values.io as IoChoice,
    store: toStoreOptions(parsed, leaseFlag, facts, errors),
    transport: {
      threads,
      backlog: values["listen-backlog"],
      maxconnsFast,
      idleTimeoutSec,
      sendTimeoutSec: extended.send_timeout,
      lockIdleTimeoutSec,
    },
    counters: toCounters(parsed, addresses),
    settings: {
      version: facts.version,
      runtime: facts.runtime,
      pid: facts.pid,
      connectionsMax: values["conn-limit"],
      tcpPort: portOf(listens, "tcp"),
      udpPort: portOf(listens, "udp"),
      listenAddresses: values["unix-socket"] === "" ? values.listen.join(",") : null,
      unixSocketPath: values["unix-socket"] || null,
      unixSocketMode: values["unix-mask"],
      verbosity: values.verbose,
      shutdownEnabled: values["enable-shutdown"],
      threads,
      statsDelimiter: values["stats-delimiter"].slice(0, 1) || ":",
      detailEnabled: given.has("stats-delimiter"),
      requestsPerEvent: values["max-reqs-per-event"],
      backlog: values["listen-backlog"],
      wireProtocol,
      maxconnsFast,
      idleTimeoutSec,
      lockIdleTimeoutSec,
      flushEnabled: !values["disable-flush-all"],
      dumpEnabled: !values["disable-dumping"],
      watchEnabled: !values["disable-watch"],
      leaseFlag: leaseFlag.flag,
      leaseMask: leaseFlag.mask,
      leaseTimeSec: values["lease-time"],
      compat: extended.compat as Settings["compat"],
    },
    tunables: toTunables(parsed),
    pidFile: values.pidfile,
    logFormat: extended.log_format as LogFormat,
    idle: parsed.idle,
  };
}

/** The settings once it is known which ports were bound. */
export function withPorts(settings: Settings, listens: readonly Listen[]): Settings {
  return { ...settings, tcpPort: portOf(listens, "tcp"), udpPort: portOf(listens, "udp") };
}

function portOf(listens: readonly Listen[], kind: "tcp" | "udp"): number {
  for (const listen of listens) if (listen.kind === kind) return listen.port;
  return 0;
}

/** What `-l` names, and what is wrong with the rest. */
function toAddresses({ values }: ParsedArguments, errors: string[]): ListenAddress[] {
  const addresses: ListenAddress[] = [];
  for (const text of values.listen) {
    try {
      addresses.push(readListenAddress(text));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      errors.push(`-l (--listen) ${JSON.stringify(text)}: ${error.message}`);
    }
  }
  return addresses;
}

function toListens(
  parsed: ParsedArguments,
  addresses: readonly ListenAddress[],
  errors: string[],
): Listen[] {
  const { values, given } = parsed;
  const protocol = values.protocol as WireProtocol;
  const path = values["unix-socket"];
  if (path !== "") return [{ kind: "unix", path, mode: values["unix-mask"], protocol }];
  const udpPort = values["udp-port"];
  // As memcached does: a UDP port without a TCP port moves both.
  const tcpPort = udpPort > 0 && !given.has("port") ? udpPort : values.port;
  const listens: Listen[] = [];
  for (const { hostname, port, protocol: own } of addresses) {
    const spoken = own ?? protocol;
    if (port !== undefined || tcpPort !== 0) {
      listens.push({ kind: "tcp", hostname, port: Math.max(0, port ?? tcpPort), protocol: spoken });
    }
    if (udpPort !== 0) {
      listens.push({ kind: "udp", hostname, port: Math.max(0, udpPort), protocol: spoken });
    }
  }
  if (listens.length === 0 && addresses.length === values.listen.length) {
    errors.push("nothing to listen on: -p 0 needs -U (--udp-port) or -s (--unix-socket)");
  }
  return listens;
}

function toCounters(
  { values }: ParsedArguments,
  addresses: readonly ListenAddress[],
): CounterServerOptions | null {
  const port = values["counter-port"];
  if (port === 0) return null;
  const hostnames = new Set(addresses.map(({ hostname }) => hostname));
  return {
    listens: Array.from(
      hostnames,
      (hostname) => ({ kind: "tcp", hostname, port: Math.max(0, port), protocol: "binary" }),
    ),
    connectionsMax: values["counter-conn-limit"],
    bytesMax: values["counter-memory"],
    intervalSec: values["counter-interval"],
  };
}

/** An item must fit twice, so that there is always another to evict for it (memcached refuses it too). */
const ITEMS_IN_MEMORY_LEAST = 2;
const MEMCACHED_GROWTH_FACTOR = 1.25;

/** How far the memory limit may be raised, unless the command line says otherwise: addresses are kept free for it. */
function ceilingFor(memoryLimitBytes: number): number {
  return Math.min(Math.max(4 * memoryLimitBytes, 1024 * MIB), MEMORY_LIMIT_MIB_MAX * MIB);
}

function toStoreOptions(
  parsed: ParsedArguments,
  leaseFlag: LeaseFlag,
  facts: ProcessFacts,
  errors: string[],
): StoreOptions {
  const { values, extended, given } = parsed;
  const memoryLimitBytes = values["memory-limit"];
  const slabLayout = extended.slab_layout as StoreOptions["slabLayout"];
  const itemSizeMost = Math.floor(memoryLimitBytes / ITEMS_IN_MEMORY_LEAST);
  let itemSizeMaxBytes = values["max-item-size"];
  if (itemSizeMaxBytes > itemSizeMost) {
    if (given.has("max-item-size")) {
      errors.push(
        `-I (--max-item-size) ${sizeText(itemSizeMaxBytes)}: must be at most half of -m ` +
          `(--memory-limit), which is ${sizeText(itemSizeMost)}`,
      );
    }
    itemSizeMaxBytes = itemSizeMost;
  }
  if (values["slab-min-size"] > itemSizeMaxBytes - KEY_LENGTH_MAX) {
    errors.push(
      `-n (--slab-min-size) ${values["slab-min-size"]}: must be below -I (--max-item-size), ` +
        `which is ${sizeText(itemSizeMaxBytes)}`,
    );
  }
  return {
    memoryLimitBytes,
    memoryCeilingBytes: extended.memlimit_max || ceilingFor(memoryLimitBytes),
    itemSizeMaxBytes,
    evictions: !values["disable-evictions"],
    casEnabled: !values["disable-cas"],
    growthFactor: given.has("slab-growth-factor") || slabLayout === "leased"
      ? values["slab-growth-factor"]
      : MEMCACHED_GROWTH_FACTOR,
    chunkSizeMin: values["slab-min-size"],
    slabLayout,
    connectionsMax: values["conn-limit"],
    threads: values.threads,
    lockLimits: {
      locksMax: values["lock-limit"],
      locksPerConnectionMax: values["lock-limit-per-conn"],
      waitersPerLockMax: values["lock-waiters"],
    },
    yrmcdsLocks: extended.compat === "yrmcds",
    startedUnixSec: Math.floor(facts.unixMs / 1000),
    firstId: given.has("cas-start")
      ? values["cas-start"]
      : firstIdAt(facts.unixMs, facts.random[0]),
    watchRingBytes: extended.watcher_logbuf_size * 1024,
    hashSeed: (facts.random[1] * 2 ** 32) | 0,
    leaseEntries: toLeaseEntries(parsed, errors),
    leaseFlag: leaseFlag.flag,
    leaseMask: leaseFlag.mask,
    strictPrefixes: values.strict.map((prefix) => prefix === "*" ? "" : prefix),
  };
}

function toLeaseFlag({ values, given }: ParsedArguments, errors: string[]): LeaseFlag {
  if (!given.has("lease-flag")) return NO_LEASE_FLAG;
  if (values["disable-cas"]) {
    errors.push("-z (--lease-flag) and -C (--disable-cas): leases are cas ids, choose one of both");
  }
  if (given.has("lease-entries") && values["lease-entries"] === 0) {
    errors.push("-z (--lease-flag) and --lease-entries 0: there would be no leases");
  }
  try {
    return readLeaseFlag(values["lease-flag"]);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    errors.push(`-z (--lease-flag) ${JSON.stringify(values["lease-flag"])}: ${error.message}`);
    return NO_LEASE_FLAG;
  }
}

function toLeaseEntries({ values, given }: ParsedArguments, errors: string[]): number {
  const wanted = values["lease-entries"];
  try {
    return leaseEntries(wanted, given.has("lease-entries"), values["memory-limit"]);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    errors.push(`--lease-entries ${wanted}: ${error.message}`);
    return 0;
  }
}

/** What `-o` says about settings that do nothing here, so that `stats settings` repeats it. */
function toTunables(parsed: ParsedArguments): (readonly [TunableName, number])[] {
  const extended: Readonly<Record<string, unknown>> = parsed.extended;
  const named = TUNABLES.filter(([name]) => parsed.given.has(name) && name in extended);
  const tunables: [TunableName, number][] = named.map(([name]) => [name, Number(extended[name])]);
  if (parsed.given.has("temporary_ttl")) tunables.push(["temp_lru", 1]);
  return tunables;
}
