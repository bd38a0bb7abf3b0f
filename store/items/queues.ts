import { type ItemRef, Items } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";

const { FREQUENCY_MASK, FREQUENCY_ONE, NO_ITEM, STATE, WORD } = itemModule;
const { CLASS } = memoryModule;

// Hot path: no allocation.

/**
 * The two queues of each class, doubly linked by WORD.NEWER and WORD.OLDER of the items. New items
 * enter the small queue; items that are read there move on to the main queue. STATE.MAIN says which
 * queue an item is in.
 */
export class Queues {
  readonly #classes: Int32Array;
  readonly #items: Items;

  constructor(memory: Memory, items: Items) {
    this.#classes = memory.classes;
    this.#items = items;
  }

  /** Puts an item in at the new end of the queue that its STATE names. */
  push(item: ItemRef, classId: number): void {
    const items = this.#items;
    const queue = this.#row(item, classId);
    const newest = this.#classes[queue]!;
    items.setWord(item, WORD.OLDER, newest);
    items.setWord(item, WORD.NEWER, NO_ITEM);
    if (newest !== NO_ITEM) items.setWord(newest, WORD.NEWER, item);
    else this.#classes[queue + OLDEST] = item;
    this.#classes[queue] = item;
    this.#classes[queue + COUNT]! += 1;
  }

  remove(item: ItemRef, classId: number): void {
    const items = this.#items;
    const queue = this.#row(item, classId);
    const newer = items.word(item, WORD.NEWER);
    const older = items.word(item, WORD.OLDER);
    if (newer !== NO_ITEM) items.setWord(newer, WORD.OLDER, older);
    else this.#classes[queue] = older;
    if (older !== NO_ITEM) items.setWord(older, WORD.NEWER, newer);
    else this.#classes[queue + OLDEST] = newer;
    this.#classes[queue + COUNT]! -= 1;
  }

  /** Replaces `item` in its queue by `copy`, which has the same words. */
  replace(item: ItemRef, copy: ItemRef, classId: number): void {
    const items = this.#items;
    const queue = this.#row(copy, classId);
    const newer = items.word(copy, WORD.NEWER);
    const older = items.word(copy, WORD.OLDER);
    if (newer !== NO_ITEM) items.setWord(newer, WORD.OLDER, copy);
    else if (this.#classes[queue] === item) this.#classes[queue] = copy;
    if (older !== NO_ITEM) items.setWord(older, WORD.NEWER, copy);
    else if (this.#classes[queue + OLDEST] === item) this.#classes[queue + OLDEST] = copy;
  }

  /** Moves an item to the new end of the main queue and sets its count of reads, 0..3. */
  moveToMain(item: ItemRef, classId: number, frequency: number): void {
    this.remove(item, classId);
    const state = this.#items.state(item) & ~FREQUENCY_MASK;
    this.#items.setWord(item, WORD.STATE, state | STATE.MAIN | (frequency * FREQUENCY_ONE));
    this.push(item, classId);
  }

  /** Moves an item that was overwritten in place to the new end of its queue, where a new item would be. */
  renew(item: ItemRef, classId: number): void {
    this.remove(item, classId);
    this.#items.dropState(item, STATE.REWRITTEN);
    this.push(item, classId);
  }

  oldest(classId: number, main: boolean): ItemRef {
    return this.#classes[
      classId * CLASS.WORDS + (main ? CLASS.MAIN_OLDEST : CLASS.SMALL_OLDEST)
    ]!;
  }

  newest(classId: number, main: boolean): ItemRef {
    return this.#classes[
      classId * CLASS.WORDS + (main ? CLASS.MAIN_NEWEST : CLASS.SMALL_NEWEST)
    ]!;
  }

  count(classId: number, main: boolean): number {
    return this.#classes[classId * CLASS.WORDS + (main ? CLASS.MAIN_COUNT : CLASS.SMALL_COUNT)]!;
  }

  #row(item: ItemRef, classId: number): number {
    return classId * CLASS.WORDS +
      (this.#items.state(item) & STATE.MAIN ? CLASS.MAIN_NEWEST : CLASS.SMALL_NEWEST);
  }
}

/** Words of a queue, from its NEWEST. */
const OLDEST = CLASS.SMALL_OLDEST - CLASS.SMALL_NEWEST;
const COUNT = CLASS.SMALL_COUNT - CLASS.SMALL_NEWEST;
