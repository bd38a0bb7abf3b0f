import {
  firstIdAt,
  LEASE_ENTRIES_LEAST,
  LEASE_ENTRIES_MOST,
  slotsWithin,
  slotTableBytes,
  TOKEN_ENTRIES_LEAST,
  TOKEN_ENTRIES_MOST,
} from "../../store/setup.ts";
import {
  KEY_LENGTH_MAX,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
  type StoreOptions,
} from "../../store/limits.ts";
import { type ProcessInfo, threadsOf } from "../process/info.ts";
import type { ServerArguments } from "./argv.ts";
import { sizeText, valueOr } from "./values.ts";

/** The client flags that mark a lease, and the mask of the bits that count. Both 0: getss and deletess are off. */
export interface LeaseFlag {
  readonly leaseFlag: number;
  readonly leaseMask: number;
}

/** Without -z. */
const NO_LEASE_FLAG: LeaseFlag = { leaseFlag: 0, leaseMask: 0 };

/** Locked items are not evicted: the rest of the memory stays free for other items. */
const LOCKED_SHARE_MAX = 1 / 2;
const LOCKED_SHARE_PER_CONNECTION_MAX = 1 / 4;
/** -I is at most half of -m, so that an item can be stored by evicting another (as in memcached). */
const ITEMS_IN_MEMORY_LEAST = 2;
const MEMCACHED_GROWTH_FACTOR = 1.25;
/** Shares of the memory that the table of leases or of update tokens gets by default, and at most. */
const TABLE_SHARE = 1 / 64;
const TABLE_SHARE_MAX = 1 / 4;
/** Mask of a lease flag that is given without one. */
const LEASE_MASK = 0xffff;

/**
 * Makes the options of the store from a parsed command line.
 *
 * @param errors Receives a message for every contradiction.
 */
export function toStoreOptions(
  parsed: ServerArguments,
  leaseFlag: LeaseFlag,
  prefixes: readonly string[],
  processInfo: ProcessInfo,
  errors: string[],
): StoreOptions {
  const { values, given } = parsed;
  const memoryLimitBytes = values.memoryLimitBytes;
  const slabLayout = values.slabLayout;
  const threads = threadsOf(values.threads, processInfo);
  return {
    memoryLimitBytes,
    memoryCeilingBytes: values.memlimitMaxBytes || ceilingFor(memoryLimitBytes),
    itemSizeMaxBytes: toItemSizeMax(parsed, errors),
    evictions: !values.disableEvictions,
    casEnabled: !values.disableCas,
    growthFactor: given.has("slab-growth-factor") || slabLayout === "leased"
      ? values.slabGrowthFactor
      : MEMCACHED_GROWTH_FACTOR,
    chunkSizeMin: values.slabMinSizeBytes,
    slabLayout,
    connectionsMax: values.connLimit,
    threads,
    optimisticReads: threads > 1 && processInfo.keepsMemoryOrder,
    lockLimits: {
      locksMax: values.lockLimit,
      locksPerConnectionMax: values.lockLimitPerConn,
      memoryShareMax: LOCKED_SHARE_MAX,
      memorySharePerConnectionMax: LOCKED_SHARE_PER_CONNECTION_MAX,
      waitersPerLockMax: values.lockWaiters,
    },
    yrmcdsLocks: values.compat === "yrmcds",
    startedUnixSec: Math.floor(processInfo.unixMs / 1000),
    firstId: firstIdAt(processInfo.unixMs, processInfo.random),
    watchRingBytes: values.watcherLogbufSize * 1024,
    hashSeed: processInfo.hashSeed,
    leaseEntries: toTableEntries(
      parsed,
      "lease-entries",
      values.leaseEntries,
      LEASE_ENTRIES_LEAST,
      LEASE_ENTRIES_MOST,
      errors,
    ),
    tokenEntries: toTokenEntries(parsed, errors),
    tokenPersistence: tokenPersistence(values),
    ...leaseFlag,
    strictPrefixes: values.strict.map((prefix) => prefix === "*" ? "" : prefix),
    rows: values.db === "" && values.origin.length === 0 ? undefined : {
      prefixes,
      expiry: values.rowExpiry,
      isNode: values.origin.length > 0,
    },
  };
}

/** Default of --memlimit-max, in bytes. The store reserves this much address space. */
function ceilingFor(memoryLimitBytes: number): number {
  return Math.min(Math.max(4 * memoryLimitBytes, 1024 * MIB), MEMORY_LIMIT_MIB_MAX * MIB);
}

/** Returns `-I` in bytes. A default larger than half of `-m` is lowered; `-n` must fit below it. */
function toItemSizeMax({ values, given }: ServerArguments, errors: string[]): number {
  const wanted = values.maxItemSizeBytes;
  const most = Math.floor(values.memoryLimitBytes / ITEMS_IN_MEMORY_LEAST);
  if (wanted > most && given.has("max-item-size")) {
    errors.push(
      `-I (--max-item-size) ${sizeText(wanted)}: must be at most half of -m ` +
        `(--memory-limit), which is ${sizeText(most)}`,
    );
  }
  const itemSizeMaxBytes = Math.min(wanted, most);
  const leastRoom = values.slabMinSizeBytes;
  if (leastRoom > itemSizeMaxBytes - KEY_LENGTH_MAX) {
    errors.push(
      `-n (--slab-min-size) ${leastRoom}: must leave ${KEY_LENGTH_MAX} bytes for the key below -I (--max-item-size), ` +
        `which is ${sizeText(itemSizeMaxBytes)}`,
    );
  }
  return itemSizeMaxBytes;
}

function toTokenEntries(parsed: ServerArguments, errors: string[]): number {
  if (tokenPersistence(parsed.values) === "off") return 0;
  return toTableEntries(
    parsed,
    "token-entries",
    parsed.values.tokenEntries,
    TOKEN_ENTRIES_LEAST,
    TOKEN_ENTRIES_MOST,
    errors,
  );
}

/**
 * Returns the size of the table of leases or of update tokens, in slots: as many as asked for, or by default no more
 * than fit in 1/64 of the memory. A table above a quarter of the memory is an error.
 *
 * @param least Fewer slots are none by default, and `least` when asked for.
 */
function toTableEntries(
  { values, given }: ServerArguments,
  name: "lease-entries" | "token-entries",
  wanted: number,
  least: number,
  most: number,
  errors: string[],
): number {
  const memoryLimitBytes = values.memoryLimitBytes;
  if (!given.has(name)) {
    const held = slotsWithin(memoryLimitBytes * TABLE_SHARE);
    return held < least ? 0 : Math.min(wanted, held, most);
  }
  if (wanted === 0) return 0;
  const entries = Math.max(wanted, least);
  const bytes = slotTableBytes(entries);
  const bytesMost = memoryLimitBytes * TABLE_SHARE_MAX;
  if (bytes > bytesMost) {
    errors.push(
      `--${name} ${wanted}: must be at most ${slotsWithin(bytesMost)}: the table takes ${bytes} ` +
        `bytes, and may take ${bytesMost}, a quarter of -m (--memory-limit) ` +
        sizeText(memoryLimitBytes),
    );
  }
  return entries;
}

/** Returns whether update tokens outlive the process. */
export function tokenPersistence(
  values: ServerArguments["values"],
): StoreOptions["tokenPersistence"] {
  if (values.tokens === "volatile") return "volatile";
  return values.stateDir === "" ? "off" : "journal";
}

/** Reads `-z`. @param errors Receives a message for every contradiction. */
export function toLeaseFlag({ values, given }: ServerArguments, errors: string[]): LeaseFlag {
  if (!given.has("lease-flag")) return NO_LEASE_FLAG;
  if (values.disableCas) {
    errors.push(
      "-z (--lease-flag) and -C (--disable-cas): leases are cas ids; leave one of the two options out",
    );
  }
  if (given.has("lease-entries") && values.leaseEntries === 0) {
    errors.push(
      "-z (--lease-flag) and --lease-entries 0: no lease could exist; leave one of the two options out",
    );
  }
  const text = values.leaseFlag;
  const label = `-z (--lease-flag) ${JSON.stringify(text)}`;
  return valueOr(NO_LEASE_FLAG, () => readLeaseFlag(text), errors, label);
}

/**
 * Reads `-z flag[:mask]`, both in hexadecimal, with or without 0x.
 *
 * @throws RangeError when the text is malformed or no bit of the flag is in the mask.
 */
function readLeaseFlag(text: string): LeaseFlag {
  const match = /^(?:0x)?([0-9a-f]{1,8})(?::(?:0x)?([0-9a-f]{1,8}))?$/i.exec(text);
  if (match === null) {
    throw new RangeError("must be flag or flag:mask, hexadecimal numbers of up to 32 bits");
  }
  const leaseFlag = parseInt(match[1]!, 16);
  const leaseMask = match[2] === undefined ? LEASE_MASK : parseInt(match[2], 16);
  if ((leaseFlag & leaseMask) === 0) {
    throw new RangeError("flag and mask must share a bit, otherwise a lease looks like a value");
  }
  return { leaseFlag, leaseMask };
}
