import type { ByteRegion } from "./bytes.ts";
import type { ItemRef } from "./item.ts";
import { NO_ITEM } from "./item.ts";
import { NO_WAITER, type WaiterRow } from "./lock_waiters.ts";

/** What a storing operation does with an item that is, or is not, there. */
export const StoreMode = {
  SET: 0,
  ADD: 1,
  REPLACE: 2,
  APPEND: 3,
  PREPEND: 4,
  /** Only when the item is there with the cas id to compare. */
  CAS: 5,
} as const;

export type StoreMode = typeof StoreMode[keyof typeof StoreMode];

/**
 * The arguments and results of one changing operation. A thread owns one and fills it anew for each command, so that
 * nothing is allocated. 64-bit numbers stand as two int32 halves.
 */
export class Change {
  input: ByteRegion;
  mode: StoreMode = StoreMode.SET;
  /** The key, in bytes of `input`: 1..250 long, checked by the parser. */
  keyOffset = 0;
  keyLength = 0;
  /** The value, in bytes of `input`. Not used by `commitReserved`. */
  valueOffset = 0;
  valueLength = 0;
  /** The client's 32 flag bits. */
  clientFlags = 0;
  /** On the store's clock, by `deadlineSec`; 0: never. */
  deadlineSec = 0;
  /** Whether `compareLow/High` must equal the item's cas id (or a lease's). */
  compare = false;
  compareLow = 0;
  compareHigh = 0;
  /** Whether `explicitLow/High` is the cas id to give instead of a fresh one (meta flag E). */
  explicit = false;
  explicitLow = 0;
  explicitHigh = 0;
  /** By how much `add` changes the number. */
  deltaLow = 0;
  deltaHigh = 0;
  /** The connection that asks, as `ConnectionTable` numbers it; 0: nobody. */
  owner = 0;
  /** The unlinked item that `reserve` made, or NO_ITEM. */
  reserved: ItemRef = NO_ITEM;
  /** Whether the owner must hold the item's lock, which ends with a successful store (RaU). */
  unlock = false;
  /** Which thread serves the owner, and how long `lock` may wait, in milliseconds; 0: not at all. */
  thread = 0;
  waitMs = 0;

  /** Result: the item as it is now, or NO_ITEM. Good until the next call that may store or evict. */
  item: ItemRef = NO_ITEM;
  /** Result: the cas id the item has now. */
  idLow = 0;
  idHigh = 0;
  /** Result of arithmetic; of `lock`: the fencing number. */
  resultLow = 0;
  resultHigh = 0;
  /** Result of `lock` that waits. */
  waiter: WaiterRow = NO_WAITER;

  constructor(input: ByteRegion) {
    this.input = input;
  }
}
