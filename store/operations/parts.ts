import { Locks } from "../claims/locks.ts";
import { TokenQueue } from "../claims/token_queue.ts";
import { TokenWaiters } from "../claims/token_waiters.ts";
import { WriteGuard } from "../claims/write_guard.ts";
import { ItemLinks } from "../items/item_links.ts";
import { Values } from "../items/values.ts";
import type { Memory } from "../memory/memory.ts";
import { Allocator } from "../space/allocator.ts";
import { ArrivingValues } from "../space/arriving_values.ts";
import { Eviction } from "../space/eviction.ts";
import { Expiry } from "../space/expiry.ts";
import { Flush } from "../space/flush.ts";
import { PageMover } from "../space/page_mover.ts";
import { Lookup } from "./lookup.ts";

/** One thread's view of the parts that operations are made of. */
export type StoreParts = ReturnType<typeof createParts>;

/** @param yieldMutex Releases the mutex for a moment: other threads may have changed anything when it returns. */
// deno-lint-ignore explicit-function-return-type
export function createParts(memory: Memory, yieldMutex: () => void) {
  const links = new ItemLinks(memory);
  const eviction = new Eviction(links);
  const mover = new PageMover(links, eviction);
  const expiry = new Expiry(links, eviction);
  const values = new Values(links);
  const arriving = new ArrivingValues(links, values);
  const locks = new Locks(links, eviction);
  return {
    links,
    eviction,
    mover,
    expiry,
    flush: new Flush(memory, expiry),
    values,
    arriving,
    allocator: new Allocator(links, eviction, mover, values, arriving),
    locks,
    guard: new WriteGuard(links, locks),
    lookup: new Lookup(links, eviction, locks),
    queue: new TokenQueue(memory),
    waiters: new TokenWaiters(memory),
    yieldMutex,
  };
}
