import { ByteRegion } from "../../store/base/bytes.ts";
import type { TokenQueue } from "../../store/claims/token_queue.ts";

/** Returns a copy of all records that wait for the journal of update tokens. */
export function queuedRecords(queue: TokenQueue): ByteRegion {
  const records = new ByteRegion(new ArrayBuffer(queue.length));
  queue.copy(records, queue.length);
  return records;
}
