import { assertEquals } from "@std/assert";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../../../store/memory/item.ts";
import { StoreMode } from "../../../store/operation.ts";
import { restoreQueues } from "../../../store/snapshot/restore_queues.ts";
import { held, keyIn, TestStore } from "../../support/store.ts";

/** When each item was last read, in seconds. */
const ACCESSED_SEC = [9, 3, 7, 3, 0, 2 ** 30, 8, 2 ** 30 - 2, 6, 2 ** 30 - 1, 6, 5, 4, 1];

Deno.test("a queue of a restored store begins with the item that was read last, in both queues of a class", () => {
  using store = new TestStore();
  const { links } = store.cache;
  const { items, queues, slabs } = links;
  const refs = ACCESSED_SEC.map((_, index) => {
    store.store(StoreMode.SET, `key${10 + index}`, "value");
    const { written } = new TextEncoder().encodeInto(`key${10 + index}`, store.input.bytes);
    return store.cache.peek(keyIn(store.cache, store.input, written));
  });
  const classId = slabs.classOf(refs[0]!);
  const isMain = (index: number): boolean => index % 2 === 0;
  held(store.cache, () => {
    // In another order than that of the references.
    for (const [index, ref] of [...refs.entries()].reverse()) {
      items.setWord(ref, WORD.ACCESSED_SEC, ACCESSED_SEC[index]!);
      queues.remove(ref, classId);
      if (isMain(index)) items.addState(ref, STATE.MAIN);
      queues.push(ref, classId);
    }
    for (const _ of restoreQueues(links));
  });
  for (const main of [false, true]) {
    const found: ItemRef[] = [];
    let item = queues.newest(classId, main);
    for (; item !== NO_ITEM; item = items.word(item, WORD.OLDER)) found.push(item);
    // Ages above three weeks count as equal: such items lie in the order of their references.
    const ageOf = (index: number): number => {
      const newestSec = Math.max(...ACCESSED_SEC.filter((_, each) => isMain(each) === main));
      return Math.min(newestSec - ACCESSED_SEC[index]!, 2 ** 21 - 1);
    };
    const indexes = ACCESSED_SEC.map((_, index) => index).filter((index) => isMain(index) === main);
    indexes.sort((a, b) => ageOf(a) - ageOf(b) || refs[b]! - refs[a]!);
    assertEquals(found, indexes.map((index) => refs[index]!), `main ${main}`);
  }
});
