import type { ItemLinks } from "../items/item_links.ts";
import * as itemModule from "../memory/item.ts";
import * as layoutModule from "../memory/request_layout.ts";
import * as operationModule from "../operation.ts";
import * as outcomeModule from "../outcome.ts";
import type { RequestSlot, RowRequests } from "../rows/row_requests.ts";
import * as requestsModule from "../rows/row_requests.ts";
import * as statsModule from "../stats.ts";

const { NO_ITEM } = itemModule;
const { REQUEST } = layoutModule;
const { StoreMode } = operationModule;
type StoreMode = operationModule.StoreMode;
const { Outcome } = outcomeModule;
type Outcome = outcomeModule.Outcome;
const { RowBit, RowKind } = requestsModule;
const { CLASS_STAT, STAT } = statsModule;

/** To count in: a row that is written has no item here. */
const SMALLEST_CLASS = 1;

/** Counts a write as the same operation on an ordinary item is counted. */
export function countWrite(
  { memory, slabs }: ItemLinks,
  requests: RowRequests,
  slot: RequestSlot,
  outcome: Outcome,
  mode: StoreMode,
): void {
  const isDone = outcome === Outcome.STORED || outcome === Outcome.OK;
  const isMissing = outcome === Outcome.NOT_FOUND;
  switch (requests.kindOf(slot)) {
    case RowKind.STORE: {
      const item = requests.word(slot, REQUEST.ITEM);
      const classId = item === NO_ITEM ? SMALLEST_CLASS : slabs.classOf(item);
      memory.stats[STAT.cmd_set]! += 1;
      memory.countClass(classId, CLASS_STAT.cmd_set);
      if (mode !== StoreMode.CAS) return;
      if (isMissing) memory.stats[STAT.cas_misses]! += 1;
      if (isDone) memory.countClass(classId, CLASS_STAT.cas_hits);
      if (outcome === Outcome.EXISTS) memory.countClass(classId, CLASS_STAT.cas_badval);
      return;
    }
    case RowKind.REMOVE:
      if (isMissing) memory.stats[STAT.delete_misses]! += 1;
      if (outcome !== Outcome.DELETED) return;
      return memory.countClass(SMALLEST_CLASS, CLASS_STAT.delete_hits);
    case RowKind.COUNT: {
      const isDecr = (requests.word(slot, REQUEST.BITS) & RowBit.DECREMENT) !== 0;
      if (isMissing) memory.stats[isDecr ? STAT.decr_misses : STAT.incr_misses]! += 1;
      if (!isDone) return;
      const hits = isDecr ? CLASS_STAT.decr_hits : CLASS_STAT.incr_hits;
      return memory.countClass(SMALLEST_CLASS, hits);
    }
    case RowKind.TOUCH:
      memory.stats[STAT.cmd_touch]! += 1;
      if (isMissing) memory.stats[STAT.touch_misses]! += 1;
      else memory.countClass(SMALLEST_CLASS, CLASS_STAT.touch_hits);
  }
}
