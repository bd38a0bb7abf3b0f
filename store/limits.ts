import type { HashSeed } from "./base/hash.ts";

// Sizes and bounds that several files share. A number that memcached has too is memcached's.

/** The first second of the store's clock. memcached begins at 2 too, so that 1 is always in the past. */
export const FIRST_SECOND = 2;

/** In bytes. */
export const KEY_LENGTH_MAX = 250;
/** Each thread's input buffer. One read returns at most this many bytes. */
export const INPUT_BYTES = 64 * 1024;
/** Each thread's buffer for replies, sent when a batch is done or the next reply might not fit. */
export const REPLY_BYTES = 256 * 1024;
/** The most a connection may leave unconsumed between two reads: an unfinished line or a small unfinished value. */
export const PENDING_BYTES_MAX = 8 * 1024;
/** A text line without LF in this many bytes closes the connection (get and gets: unbounded). */
export const LINE_LENGTH_MAX = 2048;
/** Unfinished values up to this wait in the input; longer ones are stored piece by piece as they arrive. */
export const BUFFERED_VALUE_BYTES_MAX = 4096;
/** The most bytes that a long value has memory for before they arrive. */
export const RESERVED_AHEAD_BYTES = 128 * 1024;
/**
 * The most memory of a value that arrives, as a multiple of the bytes that have arrived: a client that announces values
 * and sends none evicts nothing. The first kibibyte brings all of RESERVED_AHEAD_BYTES: with a smaller factor, a set of
 * 100 KB needs three reads instead of one and 40 % more CPU time.
 */
export const RESERVED_AHEAD_FACTOR = 128;
/** The first bytes of a value have memory before they arrive, if the connection has bytes to read. */
export const RESERVED_AHEAD_LEAST_BYTES = 4096;
/**
 * The share of the memory limit that all arriving values may take. They cannot be evicted: with a larger share,
 * clients that send slowly would leave less memory to all others.
 */
export const ARRIVING_SHARE_MAX = 1 / 4;
/** The share of the memory limit that values on their way to the database may take. They cannot be evicted. */
export const DETACHED_SHARE_MAX = 3 / 4;
/**
 * The share that those values and the replies of commands may take before a further command that reads rows begins:
 * clients that receive nothing leave the rest to writes.
 */
export const REPLY_SHARE_MAX = 1 / 4;
/** How long a request waits while others take its share, in seconds. */
export const ROOM_WAIT_SEC = 10;
/** The share of the memory limit that the database thread's copies of these values may take. */
export const COPIED_SHARE_MAX = 1 / 4;
/** The most that is copied under one hold of the mutex. */
export const COPY_BYTES_MAX = 64 * 1024;
/**
 * Longer values can be pinned, in every layout, and are copied in pieces. After copying this many bytes of shorter
 * values a thread yields the mutex, so that one hold copies at most COPY_BYTES_MAX.
 */
export const UNPINNED_BYTES_MAX = COPY_BYTES_MAX / 2;

/** The longest that `lock` may wait: an hour. */
export const LOCK_WAIT_MS_MAX = 3_600_000;

/** The largest `--lock-limit`. */
export const LOCKS_MAX_MOST = 1 << 24;

/** Bounds of locks. */
export interface LockLimits {
  /** Locks in all. */
  readonly locksMax: number;
  readonly locksPerConnectionMax: number;
  /** The share of the memory limit that all locked items may take. */
  readonly memoryShareMax: number;
  readonly memorySharePerConnectionMax: number;
  /** Connections that may wait for one lock. */
  readonly waitersPerLockMax: number;
}

/** Bytes. */
export const MIB = 1024 * 1024;
/** An item reference reaches 16 GiB; the last GiB is kept for the tables. */
export const MEMORY_LIMIT_MIB_MAX = 15 * 1024;
/** The least and the most `-I`, in bytes. */
export const ITEM_SIZE_MAX_LEAST = 1024;
export const ITEM_SIZE_MAX_MOST = 1024 * MIB;

/** The options of the store. */
export interface StoreOptions {
  /** Size of the store, tables included. */
  memoryLimitBytes: number;
  /** How far the limit may be raised while the process runs; left out: not at all. Costs addresses, not memory. */
  memoryCeilingBytes?: number;
  /** `-I`: the largest item, key and header included. */
  itemSizeMaxBytes: number;
  /** `-M`: answer an error instead of evicting. */
  evictions: boolean;
  /** `-C` turns it off: ids are always 0. */
  casEnabled: boolean;
  /** `-f`: how far the sizes of neighbouring classes are apart. */
  growthFactor: number;
  /** `-n`: the least room for key, value and flags. */
  chunkSizeMin: number;
  /** `-o slab_layout`. */
  slabLayout: "leased" | "memcached";
  /**
   * `--lease-entries`: how many leases there can be at once; their table is taken out of
   * `memoryLimitBytes`. 0: none.
   */
  leaseEntries: number;
  /** `--token-entries`: how many update tokens there can be at once; as `leaseEntries`. */
  tokenEntries: number;
  /** Whether update tokens survive the process; "off": there are none. */
  tokenPersistence: "off" | "volatile" | "journal";
  /**
   * `-z`: stored values whose flags look like this, under the mask, are counted as a clash. Mask 0:
   * no leases in text.
   */
  leaseFlag: number;
  leaseMask: number;
  /** `--strict`: keys that only the holder of a lease may fill, by prefix. `[""]`: all keys; `[]`: none. */
  strictPrefixes: readonly string[];
  /** `-c`: rows of the connection table. */
  connectionsMax: number;
  threads: number;
  /**
   * Whether threads read without the mutex, see docs/internals/optimistic_reads.md; default: false. Needs a processor
   * that keeps the order of loads and the order of stores, as x86-64 does.
   */
  optimisticReads?: boolean;
  /** The Unix time, in seconds, of the moment the store is made. */
  startedUnixSec: number;
  /** The first id handed out; never one that an earlier process used. */
  firstId: number;
  /** The secret of the key hash: without it, a client cannot choose keys that collide. */
  hashSeed: HashSeed;
  lockLimits: LockLimits;
  /** `-o compat=yrmcds`: a lock is refused to its own holder too, and anybody may touch a locked item. */
  yrmcdsLocks: boolean;
  /** `-o watcher_logbuf_size`: bytes of lines that one watcher has not read; left out: memcached's default. */
  watchRingBytes?: number;
  /** The rows; left out: the server has no database. */
  rows?: RowStoreOptions | undefined;
}

/** The keys behind which there is a database. */
interface RowStoreOptions {
  /** Their prefixes. `[""]`: all keys. */
  readonly prefixes: readonly string[];
  /** How an expiry time of a row is treated: the request is refused, it is ignored, or a column stores it. */
  readonly expiry: "refuse" | "ignore" | "column";
  /** The source of the right to serve rows from the cache, as errors name it; left out: the right has no end. */
  readonly rightFrom?: string | undefined;
  /** Whether another server has the database, and the locks of rows; left out: no. */
  readonly isNode?: boolean;
}

/** The least `leaseEntries`, 0 (no leases at all) aside: the longest key needs 5 slots. */
export const LEASE_ENTRIES_LEAST = 8;
/** The most. */
export const LEASE_ENTRIES_MOST = 10_000_000;
