import { assert } from "../base/assert.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { LOCK, LOCK_HEADER, lockRowsStart, OWNER, ownerPlaces } from "../memory/lock_layout.ts";
import { lockQueues } from "../memory/waiter_layout.ts";
import { checkWaiters } from "./check_waiters.ts";

/**
 * Walks the tables of locks and waiters and asserts that they agree with the items and with each other.
 *
 * @throws Error at the first disagreement.
 */
export function checkLocks(links: ItemLinks, linked: Set<ItemRef>): void {
  const held = checkRows(links, linked);
  checkOwners(links, held);
  const { options, shared } = links.memory;
  checkWaiters(options, shared.lockWaiters, lockQueues(options), (lock) => held.has(lock));
}

/** Every row in use has its item, and every locked item its row. Returns the rows in use. */
function checkRows(links: ItemLinks, linked: Set<ItemRef>): Set<number> {
  const { memory, items } = links;
  const words = new Int32Array(memory.shared.locks);
  const start = lockRowsStart(memory.options);
  const held = new Set<number>();
  let units = 0;
  for (let row = 1; row <= words[LOCK_HEADER.EVER_USED]!; row++) {
    const item = words[start + row * LOCK.WORDS + LOCK.ITEM]!;
    if (item === NO_ITEM) continue;
    held.add(row);
    assert(linked.has(item), "a lock is of an item of the index");
    assert((items.state(item) & STATE.LOCKED) !== 0, "an item with a lock is marked as locked");
    assert(items.word(item, WORD.NEWER) === row, "a locked item knows its lock");
    assert(words[start + row * LOCK.WORDS + LOCK.OWNER] !== 0, "a lock has an owner");
    units += words[start + row * LOCK.WORDS + LOCK.UNITS]!;
  }
  for (const item of linked) {
    if ((items.state(item) & STATE.LOCKED) === 0) continue;
    assert(held.has(items.word(item, WORD.NEWER)), "an item marked as locked has a lock");
  }
  let free = 0;
  let row = words[LOCK_HEADER.FREE]!;
  for (; row !== 0; row = words[start + row * LOCK.WORDS + LOCK.NEXT]!) {
    assert(!held.has(row), "a free row of locks is not in use");
    free++;
  }
  assert(held.size === words[LOCK_HEADER.COUNT], "the table counts its locks");
  assert(units === words[LOCK_HEADER.UNITS], "the table counts the sizes of locked items");
  assert(held.size + free === words[LOCK_HEADER.EVER_USED], "every row of locks is free or used");
  assert(held.size <= memory.options.lockLimits.locksMax, "locks keep to their limit");
  return held;
}

/** Every lock is in its owner's list, once. */
function checkOwners(links: ItemLinks, held: Set<number>): void {
  const { options, shared } = links.memory;
  const words = new Int32Array(shared.locks);
  const start = lockRowsStart(options);
  let listed = 0;
  for (let place = 0; place < ownerPlaces(options); place++) {
    const head = LOCK_HEADER.WORDS + place * OWNER.WORDS;
    let count = 0;
    let previous = 0;
    for (let row = words[head + OWNER.FIRST]!; row !== 0;) {
      const at = start + row * LOCK.WORDS;
      assert(held.has(row), "a connection's lock is in use");
      assert(words[at + LOCK.PREVIOUS] === previous, "links of a connection's locks agree");
      assert(
        (words[at + LOCK.OWNER]! & (ownerPlaces(options) - 1)) === place,
        "a lock is in its owner's list",
      );
      count++;
      previous = row;
      row = words[at + LOCK.NEXT]!;
    }
    assert(words[head + OWNER.COUNT] === count, "a connection counts its locks");
    listed += count;
  }
  assert(listed === held.size, "every lock is in its owner's list");
}
