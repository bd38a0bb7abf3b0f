import type { ByteRegion, KeyBytes } from "./base/bytes.ts";
import { type ItemRef, NO_ITEM, STATE } from "./memory/item.ts";

/** How a storing operation treats an existing and a missing item. */
export const StoreMode = {
  SET: 0,
  ADD: 1,
  REPLACE: 2,
  APPEND: 3,
  PREPEND: 4,
  /** Only when the item is there with the cas id to compare, or a lease with that id. */
  CAS: 5,
  /** As CAS, but only for the holder of a lease, or of a stub. */
  FILL: 6,
} as const;

export type StoreMode = typeof StoreMode[keyof typeof StoreMode];

/** For `Operation.marks`: meta commands write the key in base64. */
export const MARK_KEY_BINARY = STATE.KEY_BINARY;
/** memcached's names of deleting commands. */
export type DeleteCommand = "delete" | "md";

/** A key with its hash. */
export interface Key extends KeyBytes {
  /** As `HashIndex.hash` computes it. */
  readonly hash: number;
}

/**
 * The arguments and results of one operation. Each thread reuses one, so that a request allocates nothing: `begin`
 * clears it, then the caller sets what the request asks for. 64-bit numbers are two int32 halves.
 */
export class Operation implements Key {
  input: ByteRegion;
  mode: StoreMode = StoreMode.SET;
  keyOffset = 0;
  keyLength = 0;
  /** Set with the key of a read; every other operation sets it itself. */
  hash = 0;
  /** The value, in bytes of `input`. Not used by `commitReserved`. */
  valueOffset = 0;
  valueLength = 0;
  /** The requester of an update token, in bytes of `input`: its tag, which may be empty, and its peer's name. */
  tagOffset = 0;
  tagLength = 0;
  peerOffset = 0;
  peerLength = 0;
  /** The client's 32 flag bits. */
  clientFlags = 0;
  /** On the store's clock, by `deadlineSec`; 0: never. */
  deadlineSec = 0;
  /**
   * Whether `compareLow/High` must equal the item's cas id (or a lease's). Understood by every mode but ADD: append and
   * prepend answer NOT_STORED when there is nothing to compare with, the others NOT_FOUND.
   */
  compare = false;
  compareLow = 0;
  compareHigh = 0;
  /** Whether `explicitLow/High` is the cas id to give instead of a fresh one (meta flag E). */
  explicit = false;
  explicitLow = 0;
  explicitHigh = 0;
  /** Whether a store with an id older than the item's succeeds, and marks the item stale (meta flag I). */
  allowOlder = false;
  /** The command that watchers are told; null: none, as by memcached's binary protocol. */
  deletedBy: DeleteCommand | null = null;
  /** STATE bits that the item gets: KEY_BINARY, STUB, WON. */
  marks = 0;
  /** Whether append, prepend, incr and decr create a missing item; incr and decr with `initialLow/High`. */
  vivify = false;
  initialLow = 0;
  initialHigh = 0;
  /** Whether every mode removes the old item when the new one is too large or has no memory; else only set does. */
  refusalRemoves = false;
  /** The operand of incr and decr. */
  deltaLow = 0;
  deltaHigh = 0;
  /** The connection's id in the `ConnectionTable`; 0: none. */
  owner = 0;
  /** The value that `reserve` began, a row of ArrivingValues; 0: none. */
  reserved = 0;
  /** Whether it is a command for the database thread: its line is the value, see `RowKind.COMMAND`. */
  isCommand = false;
  /** Whether an increment of a row sets its expiry time, too, if the row is there. */
  touches = false;
  /** Whether the owner must hold the item's lock, which ends with a successful store (RaU). */
  unlock = false;
  /** How long `lock` may wait, in milliseconds; 0: not at all. If it may, `thread` is the one that serves the owner. */
  waitMs = 0;
  thread = 0;

  /** Result: the item as it is now, or NO_ITEM. Good until the next call that may store or evict. */
  item: ItemRef = NO_ITEM;
  /** Result: the cas id the item has now, or the lease. */
  idLow = 0;
  idHigh = 0;
  /** Result of arithmetic; of `lock`: the fencing number. */
  resultLow = 0;
  resultHigh = 0;
  /** Result of an operation that waits: the row in LockWaiters or TokenWaiters. */
  waiter = 0;

  /** Result: whether the server refused a store whatever the key holds: `--strict`, an update token, quarantine. */
  isRefused = false;
  /** Result: whether what looks like a lease of another client is an update token, or quarantine. */
  isUncacheable = false;
  /** Result: the remaining time of a lease in whole seconds; 0: created now; -1: no end (a stub). */
  remainSec = 0;

  constructor(input: ByteRegion) {
    this.input = input;
  }

  /** Sets the key of a read, and leaves the rest. */
  setKey(keyOffset: number, keyLength: number, hash: number): void {
    this.keyOffset = keyOffset;
    this.keyLength = keyLength;
    this.hash = hash;
  }

  /**
   * Starts an operation on the key at `keyOffset` of `input` and clears every optional argument: a plain set without
   * flags, expiry time or conditions. Leaves the places of value, tag and peer, and the owner alone.
   */
  begin(keyOffset: number, keyLength: number): void {
    this.keyOffset = keyOffset;
    this.keyLength = keyLength;
    this.mode = StoreMode.SET;
    this.clientFlags = 0;
    this.deadlineSec = 0;
    this.compare = false;
    this.explicit = false;
    this.allowOlder = false;
    this.marks = 0;
    this.vivify = false;
    this.refusalRemoves = false;
    this.isCommand = false;
    this.touches = false;
    this.unlock = false;
    this.waitMs = 0;
  }

  /** Returns a copy that outlives the request, for a value that is still arriving. */
  copy(): Operation {
    return Object.assign(new Operation(this.input), this);
  }
}

/** Whether append or prepend names the id 0, which they take for none (memcached). They count no cas. */
export function namesNoId(operation: Operation): boolean {
  return isExtending(operation) && (operation.compareLow | operation.compareHigh) === 0;
}

/** Whether a storing operation lengthens a value that is there. */
export function isExtending(operation: Operation): boolean {
  return operation.mode === StoreMode.APPEND || operation.mode === StoreMode.PREPEND;
}
