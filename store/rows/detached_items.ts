import { assert } from "../base/assert.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as layoutModule from "../memory/request_layout.ts";

const { STATE, WORD } = itemModule;
const { REQUEST_HEADER: HEADER } = layoutModule;

// Hot path: no allocation.

/**
 * Detached items: complete items in no index, which requests of rows refer to. They are neither evicted nor moved, so
 * they are counted and bounded. Their users are counted in WORD.HASH_NEXT. One with a chain is pinned as long as it has
 * users; a reply that refers to the value pins it once more.
 */
export class DetachedItems {
  readonly #links: ItemLinks;
  readonly #values: Values;
  readonly #words: Int32Array;

  constructor(memory: Memory, links: ItemLinks, values: Values) {
    this.#links = links;
    this.#values = values;
    this.#words = new Int32Array(memory.shared.rowRequests);
  }

  /** How many there are. */
  get count(): number {
    return this.#words[HEADER.DETACHED_ITEMS]!;
  }

  /** Their memory, in bytes, about. */
  get bytes(): number {
    return this.#words[HEADER.DETACHED_KIB]! * 1024;
  }

  /** Makes a reserved item a detached one, with one user. */
  add(item: ItemRef): void {
    const { items } = this.#links;
    assert(
      (items.state(item) & (STATE.RESERVED | STATE.LINKED)) === STATE.RESERVED,
      "an item is detached before it is in the cache",
    );
    items.dropState(item, STATE.RESERVED);
    items.addState(item, STATE.DETACHED);
    if (items.state(item) & STATE.CHAINED) this.#values.pin(item);
    items.setWord(item, WORD.HASH_NEXT, 1);
    this.#count(item, 1);
  }

  /** Adds a user to a detached item, or pins a linked one, which has a chain. */
  hold(item: ItemRef): void {
    const { items } = this.#links;
    if ((items.state(item) & STATE.DETACHED) === 0) this.#values.pin(item);
    else items.setWord(item, WORD.HASH_NEXT, items.word(item, WORD.HASH_NEXT) + 1);
  }

  /** Ends one use of an item that `hold` or `add` began. The last one of a detached item frees it. */
  release(item: ItemRef): void {
    const { items } = this.#links;
    const state = items.state(item);
    if ((state & STATE.DETACHED) === 0) return this.#values.unpin(item);
    const users = items.word(item, WORD.HASH_NEXT) - 1;
    assert(users >= 0, "a use of a detached item ends once");
    items.setWord(item, WORD.HASH_NEXT, users);
    if (users > 0) return;
    items.dropState(item, STATE.DETACHED);
    this.#count(item, -1);
    if (state & STATE.CHAINED) return this.#values.unpin(item);
    this.#values.forgetPosition();
    this.#links.free(item);
  }

  #count(item: ItemRef, by: 1 | -1): void {
    this.#words[HEADER.DETACHED_ITEMS]! += by;
    this.#words[HEADER.DETACHED_KIB]! += by * Math.ceil(this.#links.bytesOf(item) / 1024);
    assert(
      (this.count === 0) === (this.#words[HEADER.DETACHED_KIB] === 0),
      "memory of detached items is counted",
    );
  }
}
