import type { Allocator } from "../space/allocator.ts";
import { Decimal } from "../base/decimal.ts";
import { ByteRegion } from "../base/bytes.ts";
import { type Change, StoreMode } from "../operation.ts";
import type { Gate } from "../claims/write_guard.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as leasesModule from "../claims/leases.ts";
import type { Links } from "../items/item_links.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";
import type { Values } from "../items/values.ts";
import type { Writer } from "./store.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { NO_ITEM, STATE } = itemModule;
const { NO_LEASE } = leasesModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

const BLANK = 0x20;

/** incr and decr: values that are numbers in decimal. */
export class Counting {
  readonly #links: Links;
  readonly #counters: Float64Array;
  readonly #gate: Gate;
  readonly #allocator: Allocator;
  readonly #writer: Writer;
  readonly #values: Values;
  readonly #decimal = new Decimal();
  readonly #digits = new ByteRegion(this.#decimal.digits.buffer);

  constructor(links: Links, gate: Gate, allocator: Allocator, writer: Writer, values: Values) {
    this.#links = links;
    this.#counters = links.memory.counters;
    this.#gate = gate;
    this.#allocator = allocator;
    this.#writer = writer;
    this.#values = values;
  }

  /**
   * Adds `change.deltaLow/High` to the number in an item, or takes it off.
   *
   * @returns OK (the new number is in `change.resultLow/High`), EXISTS, NOT_NUMERIC, NO_MEMORY or LOCKED.
   */
  addTo(item: ItemRef, change: Change, hash: number, increment: boolean): Outcome {
    if (this.#gate.isLockedByOther(item, change.owner)) return Outcome.LOCKED;
    const { memory, slabs, items } = this.#links;
    // As memcached does: what by its length is no number, is none before the id is looked at.
    const isChained = (items.state(item) & STATE.CHAINED) !== 0;
    if (isChained || items.valueLength(item) === 0) return Outcome.NOT_NUMERIC;
    if (change.compare && !this.#gate.hasId(item, change)) return Outcome.EXISTS;
    const classId = slabs.classOf(item);
    const outcome = this.#changeNumber(item, change, hash, increment);
    if (outcome !== Outcome.OK) return outcome;
    this.#gate.noteUse(change.item);
    memory.countClass(classId, increment ? CLASS_STAT.incr_hits : CLASS_STAT.decr_hits);
    return Outcome.OK;
  }

  /**
   * Where there is no value: makes one of `change.initialLow/High` if `change.vivify`, else renews a lease.
   *
   * @returns STORED, NOT_STORED, NO_MEMORY or NOT_FOUND.
   */
  addToNothing(change: Change, hash: number, increment: boolean): Outcome {
    const { input, keyOffset, keyLength } = change;
    if (change.vivify) {
      change.mode = StoreMode.ADD;
      const refusal = this.#gate.admit(change, NO_ITEM, input, keyOffset, keyLength, hash);
      if (refusal !== Outcome.OK) return refusal;
      const outcome = this.#makeNumber(change, hash);
      if (outcome === Outcome.STORED) this.#gate.settle(change, hash);
      return outcome;
    }
    const { leases } = this.#gate;
    const lease = leases.find(input, keyOffset, keyLength, hash);
    if (lease !== NO_LEASE && leases.isHeld(lease)) this.#gate.renew(lease);
    this.#counters[increment ? STAT.incr_misses : STAT.decr_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  /**
   * Changes the number in a value that is not chained. A shorter one is padded with blanks, as
   * memcached does; for a longer one the item is replaced: `change.item` is the one that has it.
   */
  #changeNumber(item: ItemRef, change: Change, hash: number, increment: boolean): Outcome {
    const { items, memory } = this.#links;
    const state = items.state(item);
    const length = items.valueLength(item);
    const decimal = this.#decimal;
    const start = items.keyOffset(item) + items.keyLength(item);
    if (!decimal.parse(memory.segmentOf(item), start, length)) return Outcome.NOT_NUMERIC;
    decimal.change(change.deltaLow, change.deltaHigh, increment);
    const digits = decimal.format();
    const lacksIdRoom = change.explicit && (state & STATE.EXPLICIT_ID) === 0;
    if (digits > length) {
      if (!this.#grow(item, change, hash, digits)) return Outcome.NO_MEMORY;
    } else if (lacksIdRoom) {
      // To those who ask it is the same item.
      change.marks |= state & (STATE.FETCHED | STATE.STALE | STATE.WON);
      if (!this.#grow(item, change, hash, length)) return Outcome.NO_MEMORY;
    }
    const target = change.item;
    this.#values.write(target, 0, this.#digits, 0, digits);
    if (digits < length) {
      const end = items.keyOffset(target) + items.keyLength(target) + length;
      memory.segmentOf(target).bytes.fill(BLANK, end - length + digits, end);
    }
    if (target === item) this.#writer.giveId(change, item);
    change.resultLow = decimal.low;
    change.resultHigh = decimal.high;
    return Outcome.OK;
  }

  /** Replaces the item by one of another length. False when there is no memory. */
  #grow(item: ItemRef, change: Change, hash: number, length: number): boolean {
    change.mode = StoreMode.SET;
    const longer = this.#writer.allocateJoined(change, item, length);
    if (longer === NO_ITEM) return false;
    this.#writer.replace(change, longer, hash);
    return true;
  }

  #makeNumber(change: Change, hash: number): Outcome {
    const { input, keyOffset, keyLength } = change;
    const decimal = this.#decimal;
    decimal.low = change.initialLow;
    decimal.high = change.initialHigh;
    const digits = decimal.format();
    const item = this.#allocator.item(input, keyOffset, keyLength, digits, change);
    if (item === NO_ITEM) return Outcome.NO_MEMORY;
    this.#values.write(item, 0, this.#digits, 0, digits);
    this.#writer.replace(change, item, hash);
    change.resultLow = decimal.low;
    change.resultHigh = decimal.high;
    return Outcome.STORED;
  }
}
