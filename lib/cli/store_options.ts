import { firstIdAt } from "../../store/setup.ts";
import {
  KEY_LENGTH_MAX,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
  type StoreOptions,
} from "../../store/limits.ts";
import type { ProcessInfo } from "../process_info.ts";
import type { ParsedArguments } from "./argv.ts";
import { leaseEntries, type LeaseFlag } from "./lease_options.ts";
import { sizeText, valueOr } from "./values.ts";

/** -I is at most half of -m, so that an item can be stored by evicting another (as in memcached). */
const ITEMS_IN_MEMORY_LEAST = 2;
const MEMCACHED_GROWTH_FACTOR = 1.25;

/**
 * Makes the options of the store from a parsed command line.
 *
 * @param errors Receives a message for every contradiction.
 */
export function toStoreOptions(
  parsed: ParsedArguments,
  leaseFlag: LeaseFlag,
  processInfo: ProcessInfo,
  errors: string[],
): StoreOptions {
  const { values, extended, given } = parsed;
  const memoryLimitBytes = values["memory-limit"];
  const slabLayout = extended.slab_layout as StoreOptions["slabLayout"];
  return {
    memoryLimitBytes,
    memoryCeilingBytes: extended.memlimit_max || ceilingFor(memoryLimitBytes),
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
    lockLimits: {
      locksMax: values["lock-limit"],
      locksPerConnectionMax: values["lock-limit-per-conn"],
      waitersPerLockMax: values["lock-waiters"],
    },
    yrmcdsLocks: extended.compat === "yrmcds",
    startedUnixSec: Math.floor(processInfo.unixMs / 1000),
    firstId: firstIdAt(processInfo.unixMs, processInfo.random),
    watchRingBytes: extended.watcher_logbuf_size * 1024,
    hashSeed: processInfo.hashSeed,
    leaseEntries: toLeaseEntries(parsed, errors),
    leaseFlag: leaseFlag.flag,
    leaseMask: leaseFlag.mask,
    strictPrefixes: values.strict.map((prefix) => prefix === "*" ? "" : prefix),
  };
}

/** Default of -o memlimit_max, in bytes. The store reserves this much address space. */
function ceilingFor(memoryLimitBytes: number): number {
  return Math.min(Math.max(4 * memoryLimitBytes, 1024 * MIB), MEMORY_LIMIT_MIB_MAX * MIB);
}

/** Returns `-I` in bytes. A default larger than half of `-m` is lowered; `-n` must fit below it. */
function toItemSizeMax({ values, given }: ParsedArguments, errors: string[]): number {
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

function toLeaseEntries({ values, given }: ParsedArguments, errors: string[]): number {
  const wanted = values["lease-entries"];
  return valueOr(
    0,
    () => leaseEntries(wanted, given.has("lease-entries"), values["memory-limit"]),
    errors,
    `--lease-entries ${wanted}`,
  );
}
