import { assert } from "../base/assert.ts";
import { ByteRegion } from "../base/bytes.ts";
import { Leases, NO_LEASE } from "../claims/leases.ts";
import { NO_TOKEN, type TokenRef, UpdateTokens } from "../claims/update_tokens.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { NO_ITEM } from "../memory/item.ts";
import { slotsFor } from "../memory/slot_table.ts";
import { TOKEN_RECORD_BYTES_MAX } from "../memory/token_layout.ts";
import { checkWaiters } from "./check_waiters.ts";

/**
 * Walks the table of update tokens and asserts that its parts agree, and that no key with a token has a value or a
 * lease.
 *
 * @throws Error at the first disagreement.
 */
export function checkTokens(links: ItemLinks): void {
  const tokens = new UpdateTokens(links.memory);
  const leases = new Leases(links.memory);
  const { table } = tokens;
  const data = new ByteRegion(new ArrayBuffer(TOKEN_RECORD_BYTES_MAX));
  const records = new Set<TokenRef>();
  let usedSlots = 0;
  for (let bucket = 0; bucket < table.bucketCount; bucket++) {
    for (let token = table.head(bucket); token !== NO_TOKEN; token = table.next(token)) {
      assert(!records.has(token), "an update token is in the table once");
      records.add(token);
      usedSlots += slotsFor(tokens.copyData(token, data, 0));
      const keyLength = tokens.keyLength(token);
      const hash = links.index.hash(data, 0, keyLength);
      assert(hash === tokens.hashOf(token), "an update token knows its key's hash");
      assert(table.bucketOf(hash) === bucket, "an update token is in its key's bucket");
      const key = { input: data, keyOffset: 0, keyLength, hash };
      const item = links.index.find(key);
      assert(item === NO_ITEM || links.isDead(item), "no key with an update token has a value");
      const lease = leases.find(key);
      assert(lease === NO_LEASE, "no key with an update token is held or dirty");
    }
  }
  assert(records.size === table.count, "the count of update tokens is that of the table");
  assert(usedSlots + table.freeSlots === table.slots, "slots are used or free");
  let listed = 0;
  for (let token = tokens.oldest; token !== NO_TOKEN; token = tokens.newer(token)) {
    assert(records.has(token), "an update token of the list is in the table");
    listed++;
  }
  assert(listed === records.size, "every update token is in the list");
  const { options, shared } = links.memory;
  checkWaiters(options, shared.tokenWaiters, 1, () => true);
  assert(tokens.isAnyOut === (listed > 0 || tokens.isQuarantined), "UNCACHEABLE knows of tokens");
}
