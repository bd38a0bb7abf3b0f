import { oneWord } from "../../store/base/key_text.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import type { RequestThread } from "../thread_context.ts";
import { WORK } from "../work_budget.ts";

/** Buckets looked at in one step. */
const STEP_BUCKETS = 64;

/**
 * The lines of `lease list`. May miss leases that come or go during the walk; lists none twice.
 *
 * @param prefix Only keys that begin with it; characters below 256 stand for bytes.
 */
export function* leaseLines(thread: RequestThread, prefix: string): Generator<string> {
  const { inspector } = thread.cache;
  const buckets = inspector.leaseBucketCount;
  for (let start = 0; start < buckets; start += STEP_BUCKETS) {
    let lines = "";
    const end = Math.min(start + STEP_BUCKETS, buckets);
    inspector.visitLeases(start, end, ({ key, idLow, idHigh, remainSec }) => {
      thread.work.spent += WORK.CLAIM_LINE;
      if (!key.startsWith(prefix)) return;
      lines += `LEASE ${oneWord(key)} ${u64ToNumber(idLow, idHigh)} ${remainSec}\r\n`;
    });
    thread.work.chargeRows(STEP_BUCKETS);
    yield lines;
  }
  yield "END\r\n";
}
