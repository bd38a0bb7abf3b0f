import { assert } from "../base/assert.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { type ItemRef, NO_ITEM, WORD } from "../memory/item.ts";

/** References have 31 bits and more, doubles 53: ages above this many seconds count as equal. */
const AGE_SEC_MAX = 2 ** 21 - 1;
const TWO_32 = 2 ** 32;

/** Puts the items of every queue into the order of their last access, the oldest first. Yields after every queue. */
export function* restoreQueues(links: ItemLinks): Generator<void> {
  const { items, queues, slabs } = links;
  for (let classId = 1; classId <= slabs.classCount; classId++) {
    for (const main of [false, true]) {
      const order = new Float64Array(queues.count(classId, main));
      const newestSec = newestAccess(links, classId, main);
      let item = queues.newest(classId, main);
      let index = 0;
      for (; item !== NO_ITEM; index++) {
        const ageSec = Math.min(newestSec - items.word(item, WORD.ACCESSED_SEC), AGE_SEC_MAX);
        order[index] = (AGE_SEC_MAX - ageSec) * TWO_32 + (item >>> 0);
        item = items.word(item, WORD.OLDER);
      }
      assert(index === order.length, "a restored queue counts its items");
      order.sort();
      for (const word of order) {
        const ref: ItemRef = (word % TWO_32) | 0;
        queues.remove(ref, classId);
        queues.push(ref, classId);
      }
      yield;
    }
  }
}

function newestAccess({ items, queues }: ItemLinks, classId: number, main: boolean): number {
  let newestSec = 0;
  let item = queues.newest(classId, main);
  for (; item !== NO_ITEM; item = items.word(item, WORD.OLDER)) {
    newestSec = Math.max(newestSec, items.word(item, WORD.ACCESSED_SEC));
  }
  return newestSec;
}
