import { assert } from "../base/assert.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { Values } from "../items/values.ts";
import { STATE } from "../memory/item.ts";
import { CONTROL, SUM } from "../memory/memory.ts";
import { ArrivingValues } from "../space/arriving_values.ts";

/** Every arriving value has a reserved item, and the sums are those of the list. */
export function checkArriving(links: ItemLinks): void {
  const arriving = new ArrivingValues(links, new Values(links));
  let count = 0;
  let bytes = 0;
  for (const row of arriving) {
    const item = arriving.itemOf(row);
    assert((links.items.state(item) & STATE.RESERVED) !== 0, "an arriving value is reserved");
    count++;
    bytes += arriving.bytesOf(item);
  }
  assert(count === links.memory.control[CONTROL.RESERVED_ITEMS], "arriving values are counted");
  assert(bytes === links.memory.sums[SUM.RESERVED_BYTES], "memory of arriving values is counted");
}
