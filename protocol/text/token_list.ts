import { oneWord } from "../../store/base/key_text.ts";
import type { RequestConversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { WORK } from "../work_budget.ts";
import { answer, sendText, wordText } from "./answer.ts";

const PREFIX_WORD = 2;
/** Tokens listed in one step. */
const TOKENS_PER_STEP = 32;

/** `token list [<prefix>]`: `TOKEN <key> <id> <age> <owner|-> <peer>` for every update token, then END. */
export function listTokens(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  if (thread.request.wordCount > PREFIX_WORD + 1) return answer(conversation, REPLY.ERROR);
  if (thread.settings.disableDumping) return answer(conversation, REFUSAL.TOKEN_LIST_NOT_ALLOWED);
  return sendText(conversation, tokenLines(thread, wordText(conversation, PREFIX_WORD)));
}

/**
 * The lines of `token list`, the oldest first. May miss tokens that come or go during the walk; lists none twice.
 *
 * @param prefix Only keys that begin with it; characters below 256 stand for bytes.
 */
function* tokenLines(thread: RequestThread, prefix: string): Generator<string> {
  const { cache: { inspector }, work } = thread;
  let last = 0;
  let listed: number;
  do {
    let lines = "";
    listed = 0;
    const passed = inspector.visitTokensAfter(
      last,
      TOKENS_PER_STEP,
      ({ key, id, ageSec, owner, peer }) => {
        last = id;
        listed++;
        if (!key.startsWith(prefix)) return;
        lines += `TOKEN ${oneWord(key)} ${id} ${ageSec} ${owner || "-"} ${
          oneWord(peer) || "-"
        }\r\n`;
      },
    );
    work.spent += listed * WORK.CLAIM_LINE;
    work.chargeRows(passed);
    yield lines;
  } while (listed === TOKENS_PER_STEP);
  yield "END\r\n";
}
