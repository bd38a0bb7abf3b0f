import { oneWord } from "../../store/base/key_text.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import { StoreMode } from "../../store/operation.ts";
import { clockSec, deadlineSec } from "../../store/clock.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import { countDeletion } from "../detail_counts.ts";
import { OUTCOME_LINE, REFUSAL, REPLY } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { answer, argumentCount, readInt32, sendText, wordText } from "./answer.ts";
import { MultigetKind } from "./read.ts";
import { WORK } from "../work_budget.ts";
import { readValueLength } from "../store_block.ts";
import { refuseBlock, storeAndAnswer } from "./write.ts";

// Hot path: no allocation.

/**
 * Until when a lease lasts that is asked for with this time; 0 stands for `--lease-time`.
 *
 * @returns An instant of the store's clock; 0 when it is negative or over.
 */
export function leaseDeadlineSec(thread: RequestThread, seconds: number): number {
  if (seconds < 0) return 0;
  const { memory, settings } = thread;
  const instant = deadlineSec(memory, seconds === 0 ? settings.leaseTimeSec : seconds);
  return instant > clockSec(memory) ? instant : 0;
}

/**
 * Begins a getss line, whose keys come next.
 *
 * @param seconds How long leases shall last, as asked for.
 * @returns Null, or the line that refuses it.
 */
export function beginGetss(conversation: RequestConversation, seconds: number): Uint8Array | null {
  const { thread } = conversation;
  if (conversation.udp) return REFUSAL.NOT_OVER_UDP;
  const deadline = leaseDeadlineSec(thread, seconds);
  if (deadline === 0) return REFUSAL.BAD_EXPTIME;
  const { multiget } = conversation.protocols;
  multiget.begin(MultigetKind.GETSS, deadline);
  conversation.task = multiget;
  return null;
}

/** getss: values, and for missing keys the right to fill them. */
export function getss(conversation: RequestConversation): Flow {
  const { request, numbers, settings } = conversation.thread;
  if (settings.leaseMask === 0) return Flow.UNKNOWN;
  if (request.wordCount < 3 || !readInt32(conversation, 1)) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  const refusal = beginGetss(conversation, numbers.value);
  if (refusal !== null) return answer(conversation, refusal);
  request.next = request.wordStart[2]!;
  return Flow.UNDER_WAY;
}

/** deletess: removes what there is, and gives the asker the right to fill it. */
export function deletess(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  const { request, numbers, operation, cache, reply, settings } = thread;
  if (settings.leaseMask === 0) return Flow.UNKNOWN;
  const isTimed = argumentCount(request, 1) === 2;
  const keyWord = isTimed ? 2 : 1;
  if (request.wordCount < 2 || argumentCount(request, 1) > 2) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (isTimed && !readInt32(conversation, 1)) return answer(conversation, REFUSAL.BAD_FORMAT);
  operation.begin(request.wordStart[keyWord]!, request.wordLength(keyWord));
  if (operation.keyLength > KEY_LENGTH_MAX) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  operation.deadlineSec = leaseDeadlineSec(thread, isTimed ? numbers.value : 0);
  if (operation.deadlineSec === 0) return answer(conversation, REFUSAL.BAD_EXPTIME);
  const outcome = cache.removeAndLease(operation);
  countDeletion(thread, operation);
  if (request.noreply) return Flow.DONE;
  switch (outcome) {
    case Outcome.DELETED:
      reply.put(REPLY.DELETED_SPACE);
      break;
    case Outcome.NOT_FOUND:
    case Outcome.UNCACHEABLE:
      reply.put(REPLY.NOT_FOUND_SPACE);
      break;
    case Outcome.NO_MEMORY:
      return answer(conversation, REFUSAL.NO_LEASE);
    default:
      return answer(conversation, OUTCOME_LINE[outcome]);
  }
  reply.decimalU64(operation.idLow, operation.idHigh);
  reply.crlf();
  return Flow.DONE;
}

/** lease-get, mcrouter's word for getss: the server says how long, and only the holder learns the id. */
export function leaseGet(conversation: RequestConversation): Flow {
  const { thread, protocols } = conversation;
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  protocols.multiget.begin(MultigetKind.LEASE_GET, leaseDeadlineSec(thread, 0));
  conversation.task = protocols.multiget;
  thread.request.next = thread.request.wordStart[1]!;
  return Flow.UNDER_WAY;
}

// Positions of the words in a lease-set line.
const KEY_WORD = 1;
const ID_WORD = 2;
const FLAGS_WORD = 3;
const EXPTIME_WORD = 4;
const LENGTH_WORD = 5;

/** lease-set: fills a key under its lease, and never otherwise. */
export function leaseSet(conversation: RequestConversation): Flow {
  const { request, numbers, input, operation, memory } = conversation.thread;
  const { wordStart, wordEnd } = request;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  operation.begin(wordStart[KEY_WORD]!, request.wordLength(KEY_WORD));
  operation.mode = StoreMode.FILL;
  if (
    operation.keyLength > KEY_LENGTH_MAX ||
    !numbers.unsignedLong(input, wordStart[FLAGS_WORD]!, wordEnd[FLAGS_WORD]!)
  ) return refuseBlock(conversation);
  operation.clientFlags = numbers.value;
  if (!numbers.long(input, wordStart[EXPTIME_WORD]!, wordEnd[EXPTIME_WORD]!)) {
    return refuseBlock(conversation);
  }
  operation.deadlineSec = deadlineSec(memory, numbers.value);
  if (!numbers.u64(input, wordStart[ID_WORD]!, wordEnd[ID_WORD]!)) {
    return refuseBlock(conversation);
  }
  operation.compare = true;
  operation.compareLow = numbers.low;
  operation.compareHigh = numbers.high;
  return storeAndAnswer(conversation);
}

/** lease list: who is expected to fill what. */
export function lease(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  if (wordText(conversation, 1) !== "list") return answer(conversation, REPLY.ERROR);
  if (thread.settings.disableDumping) return answer(conversation, REFUSAL.LEASE_LIST_NOT_ALLOWED);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  return sendText(conversation, leaseLines(thread, wordText(conversation, 2)));
}

/** Buckets of leases that `lease list` looks at in one step. */
const STEP_BUCKETS = 64;

/**
 * The lines of `lease list`. May miss leases that come or go during the walk; lists none twice.
 *
 * @param prefix Only keys that begin with it; characters below 256 stand for bytes.
 */
function* leaseLines(thread: RequestThread, prefix: string): Generator<string> {
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
