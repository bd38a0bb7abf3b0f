import type { StoreParts } from "./parts.ts";
import type { Allocator } from "../space/allocator.ts";
import { Decimal } from "../base/decimal.ts";
import { ByteRegion } from "../base/bytes.ts";
import { type Operation, StoreMode } from "../operation.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as leasesModule from "../claims/leases.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";
import type { Values } from "../items/values.ts";
import type { StoreOperations } from "./store.ts";

const { NO_ITEM, STATE } = itemModule;
const { NO_LEASE } = leasesModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

const BLANK = 0x20;

/** incr and decr: values that are numbers in decimal. */
export class ArithmeticOperations {
  readonly #links: ItemLinks;
  readonly #stats: Float64Array;
  readonly #guard: WriteGuard;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;
  readonly #values: Values;
  readonly #decimal = new Decimal();
  readonly #digits = new ByteRegion(this.#decimal.digits.buffer);

  constructor(parts: StoreParts, storeOperations: StoreOperations) {
    const { links, guard, allocator, values } = parts;
    this.#links = links;
    this.#stats = links.memory.stats;
    this.#guard = guard;
    this.#allocator = allocator;
    this.#storeOperations = storeOperations;
    this.#values = values;
  }

  /**
   * Adds `operation.deltaLow/High` to the number in an item, or subtracts it.
   *
   * @returns OK (the new number is in `operation.resultLow/High`), EXISTS, NOT_NUMERIC, NO_MEMORY or LOCKED.
   */
  incrDecr(item: ItemRef, operation: Operation, increment: boolean): Outcome {
    if (this.#guard.isLockedByOther(item, operation.owner)) return Outcome.LOCKED;
    const { memory, slabs, items } = this.#links;
    // memcached rejects a value by its length before it compares the id.
    const isChained = (items.state(item) & STATE.CHAINED) !== 0;
    if (isChained || items.valueLength(item) === 0) return Outcome.NOT_NUMERIC;
    if (operation.compare && !this.#guard.hasId(item, operation)) return Outcome.EXISTS;
    const classId = slabs.classOf(item);
    const outcome = this.#changeNumber(item, operation, increment);
    if (outcome !== Outcome.OK) return outcome;
    this.#links.hits.noteUse(operation.item);
    memory.countClass(classId, increment ? CLASS_STAT.incr_hits : CLASS_STAT.decr_hits);
    return Outcome.OK;
  }

  /**
   * Handles a missing value: stores `operation.initialLow/High` if `operation.vivify`, else renews a lease.
   *
   * @returns STORED, NOT_STORED, NO_MEMORY or NOT_FOUND.
   */
  incrDecrMissing(operation: Operation, increment: boolean): Outcome {
    if (this.#guard.refuses(operation)) {
      this.#stats[increment ? STAT.incr_misses : STAT.decr_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    if (operation.vivify) {
      operation.mode = StoreMode.ADD;
      const refusal = this.#guard.admit(operation, NO_ITEM);
      if (refusal !== Outcome.OK) return refusal;
      const outcome = this.#makeNumber(operation);
      if (outcome === Outcome.STORED) this.#guard.settle(operation);
      return outcome;
    }
    const { leases } = this.#guard;
    const lease = leases.find(operation);
    if (lease !== NO_LEASE && leases.isHeld(lease)) this.#guard.renew(lease);
    this.#stats[increment ? STAT.incr_misses : STAT.decr_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  /**
   * Changes the number in a value that is not chained. A shorter one is padded with blanks, as
   * memcached does; for a longer one the item is replaced: `operation.item` is the one that has it.
   */
  #changeNumber(item: ItemRef, operation: Operation, increment: boolean): Outcome {
    const { items, memory } = this.#links;
    const state = items.state(item);
    const length = items.valueLength(item);
    const decimal = this.#decimal;
    const start = items.keyOffset(item) + items.keyLength(item);
    if (!decimal.parse(memory.segmentOf(item), start, length)) return Outcome.NOT_NUMERIC;
    decimal.addDelta(operation.deltaLow, operation.deltaHigh, increment);
    const digits = decimal.format();
    const lacksIdRoom = operation.explicit && (state & STATE.EXPLICIT_ID) === 0;
    if (digits > length || lacksIdRoom) {
      // For clients an item that only gets room for an id stays the same.
      if (digits <= length) {
        operation.marks |= state & (STATE.FETCHED | STATE.STALE | STATE.WON);
      }
      const newLength = Math.max(digits, length);
      if (!this.#replace(item, operation, digits, newLength)) return Outcome.NO_MEMORY;
    } else {
      const begun = memory.versions.begin(operation.hash);
      this.#putDigits(item, digits, length);
      this.#storeOperations.assignId(operation, item);
      memory.versions.end(begun);
    }
    operation.resultLow = decimal.low;
    operation.resultHigh = decimal.high;
    return Outcome.OK;
  }

  /** Replaces the item by one of another length, with the number. False when there is no memory. */
  #replace(item: ItemRef, operation: Operation, digits: number, length: number): boolean {
    operation.mode = StoreMode.SET;
    const other = this.#storeOperations.allocateJoined(operation, item, length);
    if (other === NO_ITEM) return false;
    this.#putDigits(other, digits, length);
    this.#storeOperations.replace(operation, other);
    return true;
  }

  /** Writes the formatted number into a value of `length` bytes, and blanks behind it. */
  #putDigits(item: ItemRef, digits: number, length: number): void {
    const { items, memory } = this.#links;
    this.#values.write(item, 0, this.#digits, 0, digits);
    if (digits === length) return;
    const end = items.keyOffset(item) + items.keyLength(item) + length;
    memory.segmentOf(item).bytes.fill(BLANK, end - length + digits, end);
  }

  #makeNumber(operation: Operation): Outcome {
    const decimal = this.#decimal;
    decimal.low = operation.initialLow;
    decimal.high = operation.initialHigh;
    const digits = decimal.format();
    const item = this.#allocator.allocate(operation, digits);
    if (item === NO_ITEM) return Outcome.NO_MEMORY;
    this.#values.write(item, 0, this.#digits, 0, digits);
    this.#storeOperations.replace(operation, item);
    operation.resultLow = decimal.low;
    operation.resultHigh = decimal.high;
    return Outcome.STORED;
  }
}
