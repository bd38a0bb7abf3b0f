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
import type { ProcessInfo } from "../process/info.ts";
import type { ServerArguments } from "./argv.ts";
import { sizeText, valueOr } from "./values.ts";

/** The client flags that mark a lease, and the mask of the bits that count. Both 0: getss and deletess are off. */
export interface LeaseFlag {
  readonly flag: number;
  readonly mask: number;
}

/** Without -z. */
const NO_LEASE_FLAG: LeaseFlag = { flag: 0, mask: 0 };

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
    leaseEntries: toTableEntries(
      parsed,
      "lease-entries",
      LEASE_ENTRIES_LEAST,
      LEASE_ENTRIES_MOST,
      errors,
    ),
    tokenEntries: toTokenEntries(parsed, errors),
    tokenPersistence: tokenPersistence(values),
    leaseFlag: leaseFlag.flag,
    leaseMask: leaseFlag.mask,
    strictPrefixes: values.strict.map((prefix) => prefix === "*" ? "" : prefix),
    rows: values.db === "" && values.origin.length === 0 ? undefined : {
      prefixes: values.rows.length === 0 ? [""] : values.rows,
      expiry: values["row-expiry"],
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

function toTokenEntries(parsed: ServerArguments, errors: string[]): number {
  if (tokenPersistence(parsed.values) === "off") return 0;
  return toTableEntries(parsed, "token-entries", TOKEN_ENTRIES_LEAST, TOKEN_ENTRIES_MOST, errors);
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
  least: number,
  most: number,
  errors: string[],
): number {
  const wanted = values[name];
  const memoryLimitBytes = values["memory-limit"];
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
  return values["state-dir"] === "" ? "off" : "journal";
}

/** Reads `-z`. @param errors Receives a message for every contradiction. */
export function toLeaseFlag({ values, given }: ServerArguments, errors: string[]): LeaseFlag {
  if (!given.has("lease-flag")) return NO_LEASE_FLAG;
  if (values["disable-cas"]) {
    errors.push(
      "-z (--lease-flag) and -C (--disable-cas): leases are cas ids; leave one of the two options out",
    );
  }
  if (given.has("lease-entries") && values["lease-entries"] === 0) {
    errors.push(
      "-z (--lease-flag) and --lease-entries 0: no lease could exist; leave one of the two options out",
    );
  }
  const text = values["lease-flag"];
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
  const flag = parseInt(match[1]!, 16);
  const mask = match[2] === undefined ? LEASE_MASK : parseInt(match[2], 16);
  if ((flag & mask) === 0) {
    throw new RangeError("flag and mask must share a bit, otherwise a lease looks like a value");
  }
  return { flag, mask };
}
