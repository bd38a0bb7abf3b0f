import { ByteRegion, latin1Text } from "../../store/base/bytes.ts";
import { oneWord } from "../../store/base/key_text.ts";
import { NO_LEASE } from "../../store/claims/leases.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import type { ThreadContext } from "../thread_context.ts";

/** Buckets looked at before others have their turn with the store. */
const SLICE_BUCKETS = 1024;

/**
 * The lines of `lease list`. Leases that come or go meanwhile may be missing; none is met twice.
 *
 * @param prefix Only keys that begin with it; characters below 256 stand for bytes.
 */
export function* leaseLines(thread: ThreadContext, prefix: string): Generator<string> {
  const { leases } = thread.cache;
  const { table } = leases;
  const key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
  for (let start = 0; start < table.bucketCount; start += SLICE_BUCKETS) {
    let lines = "";
    const end = Math.min(start + SLICE_BUCKETS, table.bucketCount);
    for (let bucket = start; bucket < end; bucket++) {
      let lease = table.head(bucket);
      for (; lease !== NO_LEASE; lease = table.next(lease)) {
        if (!leases.isHeldNow(lease)) continue;
        leases.copyKey(lease, key, 0);
        const name = latin1Text(key.bytes, 0, leases.keyLength(lease));
        if (!name.startsWith(prefix)) continue;
        const id = u64ToNumber(leases.idLow(lease), leases.idHigh(lease));
        lines += `LEASE ${oneWord(name)} ${id} ${leases.remainSec(lease)}\r\n`;
      }
    }
    yield lines;
  }
  yield "END\r\n";
}
