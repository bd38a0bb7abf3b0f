import { oneWord } from "../../store/base/key_text.ts";
import type { Conversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../replies.ts";
import { Flow } from "../request.ts";
import type { ThreadContext } from "../thread_context.ts";
import { ROWS_PER_UNIT, WORK } from "../work_budget.ts";
import { answer, sendText, wordText } from "./answer.ts";

const PREFIX_WORD = 2;
/** Buckets looked at in one step. */
const STEP_BUCKETS = 256;

/** `token list [<prefix>]`: `TOKEN <key> <id> <age> <owner|-> <peer>` for every update token, then END. */
export function listTokens(conversation: Conversation): Flow {
  const { thread } = conversation;
  if (thread.request.wordCount > PREFIX_WORD + 1) return answer(conversation, REPLY.ERROR);
  if (!thread.settings.dumpEnabled) return answer(conversation, REFUSAL.TOKEN_LIST_NOT_ALLOWED);
  return sendText(conversation, tokenLines(thread, wordText(conversation, PREFIX_WORD)));
}

/**
 * The lines of `token list`. Tokens that come or go meanwhile may be missing; none is met twice.
 *
 * @param prefix Only keys that begin with it; characters below 256 stand for bytes.
 */
function* tokenLines(thread: ThreadContext, prefix: string): Generator<string> {
  const { inspector } = thread.cache;
  const buckets = inspector.tokenBucketCount;
  for (let start = 0; start < buckets; start += STEP_BUCKETS) {
    let lines = "";
    const end = Math.min(start + STEP_BUCKETS, buckets);
    inspector.visitTokens(start, end, ({ key, id, ageSec, owner, peer }) => {
      thread.work.spent += WORK.CLAIM_LINE;
      if (!key.startsWith(prefix)) return;
      lines += `TOKEN ${oneWord(key)} ${id} ${ageSec} ${owner || "-"} ${oneWord(peer) || "-"}\r\n`;
    });
    thread.work.spent += STEP_BUCKETS / ROWS_PER_UNIT;
    yield lines;
  }
  yield "END\r\n";
}
