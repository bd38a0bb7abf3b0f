import { assert } from "../base/assert.ts";
import { WaiterState } from "../claims/waiters.ts";
import type { StoreOptions } from "../limits.ts";
import {
  LIST,
  WAITER,
  WAITER_HEADER,
  waiterQueuesStart,
  waiterRowsStart,
} from "../memory/waiter_layout.ts";

/**
 * Asserts that every waiter in use is in the list that its state names, or was taken from its thread's.
 *
 * @param queueCount How many queues the buffer has.
 * @param mayWait Whether connections may wait in a queue.
 */
export function checkWaiters(
  options: StoreOptions,
  buffer: SharedArrayBuffer,
  queueCount: number,
  mayWait: (queue: number) => boolean,
): void {
  const words = new Int32Array(buffer);
  const queues = waiterQueuesStart(options);
  const start = waiterRowsStart(options, queueCount);
  const inList = new Map<number, number>();
  const walk = (list: number): void => {
    let count = 0;
    let previous = 0;
    for (let waiter = words[list + LIST.FIRST]!; waiter !== 0;) {
      const at = start + waiter * WAITER.WORDS;
      assert(words[at + WAITER.LIST] === list, "a waiter knows its list");
      assert(words[at + WAITER.PREVIOUS] === previous, "links of waiters agree");
      inList.set(waiter, list);
      count++;
      previous = waiter;
      waiter = words[at + WAITER.NEXT]!;
    }
    assert(words[list + LIST.LAST] === previous, "a list of waiters knows its end");
    assert(words[list + LIST.COUNT] === count, "a list of waiters counts them");
    const isQueue = list >= queues;
    assert(count === 0 || !isQueue || mayWait((list - queues) / LIST.WORDS), "a queue has a lock");
  };
  for (let list = WAITER_HEADER.WORDS; list < start; list += LIST.WORDS) walk(list);
  let waiting = 0;
  for (let waiter = 1; waiter <= words[WAITER_HEADER.EVER_USED]!; waiter++) {
    const at = start + waiter * WAITER.WORDS;
    if (words[at + WAITER.OWNER] === 0) {
      assert(!inList.has(waiter), "a free row of waiters is in no list");
      continue;
    }
    const list = inList.get(waiter) ?? 0;
    assert(words[at + WAITER.LIST] === list, "a waiter is in the list it names");
    const isWaiting = words[at + WAITER.STATE] === WaiterState.WAITING;
    assert(isWaiting === (list >= queues), "a waiter is in a queue while it waits");
    if (isWaiting) waiting++;
  }
  assert(waiting === words[WAITER_HEADER.COUNT], "the table counts those that wait");
}
