import { Outcome } from "../../store/outcome.ts";
import type { Conversation } from "../conversation.ts";
import { REFUSAL } from "../replies.ts";
import { Flow } from "../request.ts";
import { answer, answerOutcome } from "./answer.ts";
import { readKey } from "./write.ts";

const DELTA_WORD = 2;

/** incr and decr. */
export function arithmetic(conversation: Conversation, increment: boolean): Flow {
  const { request, numbers, input, operation, cache, reply } = conversation.thread;
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (!numbers.u64(input, request.wordStart[DELTA_WORD]!, request.wordEnd[DELTA_WORD]!)) {
    return answer(conversation, REFUSAL.BAD_DELTA);
  }
  operation.deltaLow = numbers.low;
  operation.deltaHigh = numbers.high;
  const outcome = cache.incrDecr(operation, increment);
  if (outcome === Outcome.NO_MEMORY) return answer(conversation, REFUSAL.OUT_OF_MEMORY);
  if (outcome !== Outcome.OK) return answerOutcome(conversation, outcome);
  if (!request.noreply) {
    reply.decimalU64(operation.resultLow, operation.resultHigh);
    reply.crlf();
  }
  return Flow.DONE;
}
