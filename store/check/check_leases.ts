import { assert } from "../base/assert.ts";
import { ByteRegion } from "../base/bytes.ts";
import { hashKey } from "../base/hash.ts";
import { NO_ITEM } from "../memory/item.ts";
import { type LeaseRef, Leases, NO_LEASE } from "../claims/leases.ts";
import { KEY_LENGTH_MAX } from "../limits.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { CONTROL } from "../memory/memory.ts";
import { slotsFor } from "../memory/slot_table.ts";

/**
 * Walks the lease table and asserts that its parts agree, and that no key has a live value and is held.
 *
 * @throws Error at the first disagreement.
 */
export function checkLeases(links: ItemLinks): void {
  const { memory } = links;
  const { control } = memory;
  const leases = new Leases(memory);
  const { table } = leases;
  const key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
  const records = new Set<LeaseRef>();
  let held = 0;
  let usedSlots = 0;
  for (let bucket = 0; bucket < table.bucketCount; bucket++) {
    let lease = table.head(bucket);
    for (; lease !== NO_LEASE; lease = table.next(lease)) {
      assert(!records.has(lease), "a record is in the lease table once");
      records.add(lease);
      const keyLength = leases.keyLength(lease);
      usedSlots += slotsFor(keyLength);
      leases.copyKey(lease, key, 0);
      const hash = hashKey(key, 0, keyLength, memory.options.hashSeed);
      assert(table.bucketOf(hash) === bucket, "a record is in its key's bucket");
      if (leases.isHeld(lease)) held++;
      if (leases.isHeldNow(lease)) {
        const item = links.index.find({ input: key, keyOffset: 0, keyLength, hash });
        assert(item === NO_ITEM || links.isDead(item), "no key has a live value and is held");
      }
    }
  }
  assert(records.size === table.count, "the count of leases is that of the table");
  assert(held === control[CONTROL.LEASE_CURR], "LEASE_CURR counts what is held");
  let queued = 0;
  for (let at = table.oldest; at !== NO_LEASE; at = table.newer(at)) {
    assert(records.has(at), "a record of the queue is in the table");
    queued++;
  }
  assert(queued === records.size, "every record is in the queue");
  assert(usedSlots + table.freeSlots === table.slots, "slots are used or free");
}
