import { firstIdAt } from "../../store/setup.ts";
import {
  KEY_LENGTH_MAX,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
  type StoreOptions,
} from "../../store/limits.ts";
import type { ProcessInfo } from "../process_info.ts";
import type { ServerArguments } from "./argv.ts";
import { TOKEN_ENTRIES_LEAST, TOKEN_ENTRIES_MOST } from "../../store/setup.ts";
import { LEASE_ENTRIES_LEAST, LEASE_ENTRIES_MOST } from "../../store/setup.ts";
import type { LeaseFlag } from "./lease_options.ts";
import { tableEntries } from "./table_entries.ts";
import { sizeText, valueOr } from "./values.ts";

/** Locked items are not evicted: the rest of the memory is for those that others store. */
const LOCKED_SHARE_MAX = 1 / 2;
const LOCKED_SHARE_PER_CONNECTION_MAX = 1 / 4;
/** -I is at most half of -m, so that an item can be stored by evicting another (as in memcached). */
const ITEMS_IN_MEMORY_LEAST = 2;
const MEMCACHED_GROWTH_FACTOR = 1.25;

/**
 * Makes the options of the store from a parsed command line.
 *
 * @param errors Receives a message for every contradiction.
 */
export function toStoreOptions(
  parsed: ServerArguments,
  leaseFlag: LeaseFlag,
  processInfo: ProcessInfo,
  errors: string[],
): StoreOptions {
  const { values, given } = parsed;
  const memoryLimitBytes = values["memory-limit"];
  const slabLayout = values["slab-layout"];
  return {
    memoryLimitBytes,
    memoryCeilingBytes: values["memlimit-max"] || ceilingFor(memoryLimitBytes),
    itemSizeMaxBytes: toItemSizeMax(parsed, errors),
    evictions: !values["disable-evictions"],
    casEnabled: !values["disable-cas"],
    growthFactor: given.has("slab-growth-factor") || slabLayout === "leased"
      ? values["slab-growth-factor"]
      : MEMCACHED_GROWTH_FACTOR,
    chunkSizeMin: values["slab-min-size"],
    slabLayout,
    connectionsMax: values["conn-limit"],
    threads: values.threads,
    optimisticReads: values.threads > 1 && processInfo.keepsMemoryOrder,
    lockLimits: {
      locksMax: values["lock-limit"],
      locksPerConnectionMax: values["lock-limit-per-conn"],
      memoryShareMax: LOCKED_SHARE_MAX,
      memorySharePerConnectionMax: LOCKED_SHARE_PER_CONNECTION_MAX,
      waitersPerLockMax: values["lock-waiters"],
    },
    yrmcdsLocks: values.compat === "yrmcds",
    startedUnixSec: Math.floor(processInfo.unixMs / 1000),
    firstId: firstIdAt(processInfo.unixMs, processInfo.random),
    watchRingBytes: values["watcher-logbuf-size"] * 1024,
    hashSeed: processInfo.hashSeed,
    leaseEntries: toLeaseEntries(parsed, errors),
    tokenEntries: toTokenEntries(parsed, errors),
    tokenPersistence: tokenPersistence(values),
    leaseFlag: leaseFlag.flag,
    leaseMask: leaseFlag.mask,
    strictPrefixes: values.strict.map((prefix) => prefix === "*" ? "" : prefix),
  };
}

/** Default of --memlimit-max, in bytes. The store reserves this much address space. */
function ceilingFor(memoryLimitBytes: number): number {
  return Math.min(Math.max(4 * memoryLimitBytes, 1024 * MIB), MEMORY_LIMIT_MIB_MAX * MIB);
}

/** Returns `-I` in bytes. A default larger than half of `-m` is lowered; `-n` must fit below it. */
function toItemSizeMax({ values, given }: ServerArguments, errors: string[]): number {
  const wanted = values["max-item-size"];
  const most = Math.floor(values["memory-limit"] / ITEMS_IN_MEMORY_LEAST);
  if (wanted > most && given.has("max-item-size")) {
    errors.push(
      `-I (--max-item-size) ${sizeText(wanted)}: must be at most half of -m ` +
        `(--memory-limit), which is ${sizeText(most)}`,
    );
  }
  const itemSizeMaxBytes = Math.min(wanted, most);
  const leastRoom = values["slab-min-size"];
  if (leastRoom > itemSizeMaxBytes - KEY_LENGTH_MAX) {
    errors.push(
      `-n (--slab-min-size) ${leastRoom}: must leave ${KEY_LENGTH_MAX} bytes for the key below -I (--max-item-size), ` +
        `which is ${sizeText(itemSizeMaxBytes)}`,
    );
  }
  return itemSizeMaxBytes;
}

function toLeaseEntries(parsed: ServerArguments, errors: string[]): number {
  const range = { least: LEASE_ENTRIES_LEAST, most: LEASE_ENTRIES_MOST };
  return valueOr(
    0,
    () => tableEntries(parsed, "lease-entries", range),
    errors,
    `--lease-entries ${parsed.values["lease-entries"]}`,
  );
}

function toTokenEntries(parsed: ServerArguments, errors: string[]): number {
  if (tokenPersistence(parsed.values) === "off") return 0;
  const range = { least: TOKEN_ENTRIES_LEAST, most: TOKEN_ENTRIES_MOST };
  return valueOr(
    0,
    () => tableEntries(parsed, "token-entries", range),
    errors,
    `--token-entries ${parsed.values["token-entries"]}`,
  );
}

/** Returns what becomes of update tokens when the process ends. */
export function tokenPersistence(
  values: ServerArguments["values"],
): StoreOptions["tokenPersistence"] {
  if (values.tokens === "volatile") return "volatile";
  return values["state-dir"] === "" ? "off" : "journal";
}
