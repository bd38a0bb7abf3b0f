import { type ByteRegion, latin1Text } from "../base/bytes.ts";
import { type DeleteCommand, type Operation, StoreMode } from "../operation.ts";
import { type ItemRef, type Items, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";
import { Outcome } from "../outcome.ts";
import type { Slabs } from "../memory/slabs.ts";
import { type LookupStatus, type WatchedItem, WatchEvent, type WatchLog } from "./watch_log.ts";

/** memcached's names of storing commands. */
const COMMAND: Record<StoreMode, string> = {
  [StoreMode.SET]: "set",
  [StoreMode.ADD]: "add",
  [StoreMode.REPLACE]: "replace",
  [StoreMode.APPEND]: "append",
  [StoreMode.PREPEND]: "prepend",
  [StoreMode.CAS]: "cas",
  [StoreMode.FILL]: "fill",
};

const STATUS: Partial<Record<Outcome, string>> = {
  [Outcome.STORED]: "stored",
  [Outcome.NOT_STORED]: "not_stored",
  [Outcome.EXISTS]: "exists",
  [Outcome.NOT_FOUND]: "not_found",
  [Outcome.LOCKED]: "locked",
  [Outcome.NOT_LOCKED]: "not_locked",
  [Outcome.TOO_LARGE]: "too_large",
  [Outcome.NO_MEMORY]: "no_memory",
};

/** Reports events of items to the log of watchers. While there is no watcher, each call tests one word. */
export class ItemWatch {
  readonly #log: WatchLog;
  readonly #memory: Memory;
  readonly #items: Items;
  readonly #slabs: Slabs;

  constructor(log: WatchLog, memory: Memory, items: Items, slabs: Slabs) {
    this.#log = log;
    this.#memory = memory;
    this.#items = items;
    this.#slabs = slabs;
  }

  /** Whether there is a watcher. */
  get isOn(): boolean {
    return this.#memory.control[CONTROL.WATCHED] !== 0;
  }

  /** @param item NO_ITEM when it was not found, or is dead. */
  lookedUp(
    item: ItemRef,
    status: LookupStatus,
    region: ByteRegion,
    keyOffset: number,
    keyLength: number,
  ): void {
    if (!this.#log.wants(WatchEvent.FETCHERS)) return;
    const key = latin1Text(region.bytes, keyOffset, keyLength);
    this.#log.lookedUp(item === NO_ITEM ? { ...ABSENT_ITEM, key } : this.#describe(item), status);
  }

  /** Reports a store. @param key Used when nothing was stored; else the item's key is. */
  stored(operation: Operation, outcome: Outcome, key: string): void {
    const { item } = operation;
    const described = outcome === Outcome.STORED && item !== NO_ITEM ? this.#describe(item) : {
      key,
      classId: 0,
      valueLength: operation.valueLength,
      deadlineSec: operation.deadlineSec,
    };
    this.#log.stored(described, COMMAND[operation.mode], STATUS[outcome] ?? "null");
  }

  /** As `stored`, with the key in the operation's input. */
  storedFrom(operation: Operation, outcome: Outcome): void {
    const key = latin1Text(operation.input.bytes, operation.keyOffset, operation.keyLength);
    this.stored(operation, outcome, key);
  }

  /** Before the item goes. */
  evicted(item: ItemRef): void {
    if (!this.#log.wants(WatchEvent.EVICTIONS)) return;
    const items = this.#items;
    const ageSec = this.#memory.control[CONTROL.NOW_SEC]! - items.word(item, WORD.ACCESSED_SEC);
    this.#log.evicted(this.#describe(item), (items.state(item) & STATE.FETCHED) !== 0, ageSec);
  }

  /** Before the item goes. */
  deleted(item: ItemRef, command: DeleteCommand): void {
    if (this.#log.wants(WatchEvent.DELETIONS)) this.#log.deleted(this.#describe(item), command);
  }

  /** The key in an item. */
  keyOf(item: ItemRef): string {
    const items = this.#items;
    const { bytes } = this.#memory.segmentOf(item);
    return latin1Text(bytes, items.keyOffset(item), items.keyLength(item));
  }

  #describe(item: ItemRef): WatchedItem {
    const items = this.#items;
    return {
      key: this.keyOf(item),
      classId: this.#slabs.classOf(item),
      valueLength: items.valueLength(item),
      deadlineSec: items.word(item, WORD.DEADLINE_SEC),
    };
  }
}

const ABSENT_ITEM = { classId: 0, valueLength: 0, deadlineSec: 0 } as const;
