import { LOCK_WAIT_MS_MAX } from "../../store/limits.ts";
import { WaiterState } from "../../store/cache.ts";
import { Outcome } from "../../store/outcome.ts";
import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import { OUTCOME_LINE, REFUSAL, REPLY } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { StoreWait } from "../waits/wait.ts";
import { answer, answerOutcome, wordText } from "./answer.ts";
import { listLocks } from "./lock_list.ts";
import { readKey } from "./write.ts";

const KEY_WORD = 1;
const LIST = "list";
const FENCE = "fence";

/** `lock <key> [<wait ms>] [fence]`, `lock list [<prefix>]`. Malformed requests get ERROR, as in yrmcds. */
export function lock(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  const { request, numbers, operation, cache } = thread;
  if (request.wordCount <= KEY_WORD) return answer(conversation, REPLY.ERROR);
  if (isList(conversation)) return listLocks(conversation);
  let word = KEY_WORD + 1;
  let waitMs = 0;
  if (word < request.wordCount && wordText(conversation, word) !== FENCE) {
    const refusal = readWait(conversation, word++);
    if (refusal !== null) return answer(conversation, refusal);
    waitMs = numbers.low;
  }
  const fence = wordText(conversation, word) === FENCE;
  if (fence) word++;
  if (word < request.wordCount) return answer(conversation, REPLY.ERROR);
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  operation.waitMs = waitMs;
  if (waitMs > 0) operation.thread = thread.connections.threadOf(conversation.owner);
  const outcome = cache.lock(operation);
  if (outcome === Outcome.WAITING) {
    conversation.task = new LockWait(thread, fence);
    return Flow.UNDER_WAY;
  }
  if (outcome === Outcome.OK && fence) {
    putFence(conversation, operation.resultLow, operation.resultHigh);
    return Flow.DONE;
  }
  if (outcome === Outcome.LOCKED) return answer(conversation, REPLY.LOCKED);
  return answerOutcome(conversation, outcome);
}

/** The access that `lock` needs: only administrators list locks. */
export function lockAccess(conversation: RequestConversation): Access {
  return isList(conversation) ? Access.ADMIN : Access.WRITE;
}

/** yrmcds lists no locks: there `list` is a key. */
function isList(conversation: RequestConversation): boolean {
  const { settings } = conversation.thread;
  return settings.compat !== "yrmcds" && wordText(conversation, KEY_WORD) === LIST;
}

/** Reads how long to wait, in milliseconds, into `numbers.low`. @returns The refusal, or null. */
function readWait(conversation: RequestConversation, index: number): Uint8Array | null {
  const { request, numbers, input } = conversation.thread;
  const start = request.wordStart[index]!;
  if (!numbers.u64(input, start, request.wordEnd[index]!)) return REPLY.ERROR;
  if (numbers.high !== 0 || numbers.low >>> 0 > LOCK_WAIT_MS_MAX) return REFUSAL.BAD_WAIT;
  return null;
}

function putFence(conversation: RequestConversation, low: number, high: number): void {
  const { reply } = conversation.thread;
  reply.text("OK ");
  reply.decimalU64(low, high);
  reply.crlf();
}

/** A connection waits for a lock that another holds. */
class LockWait extends StoreWait {
  readonly #fence: boolean;

  constructor({ cache, operation }: RequestThread, fence: boolean) {
    super(cache.locks.waiters, operation.waiter, false);
    this.#fence = fence;
  }

  protected answer(conversation: RequestConversation): void {
    const { waiter, waiters } = this;
    const state = waiters.stateOf(waiter);
    if (state === WaiterState.GRANTED && this.#fence) {
      putFence(conversation, waiters.idLow(waiter), waiters.idHigh(waiter));
    } else if (state !== WaiterState.WAITING) {
      conversation.thread.reply.put(WAITED[state]);
    }
  }
}

/** The reply to each end of a wait. */
const WAITED = {
  [WaiterState.GRANTED]: REPLY.OK,
  [WaiterState.NOT_FOUND]: REPLY.NOT_FOUND,
  [WaiterState.TIMED_OUT]: REPLY.LOCKED,
} as const;

/** `unlock <key>` */
export function unlock(conversation: RequestConversation): Flow {
  const { request, operation, cache } = conversation.thread;
  if (request.wordCount !== KEY_WORD + 1) return answer(conversation, REPLY.ERROR);
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  const outcome = cache.unlock(operation);
  // The text protocol has one line for all that is not the connection's to unlock.
  return answer(conversation, OUTCOME_LINE[outcome === Outcome.OK ? outcome : Outcome.NOT_LOCKED]);
}

/** `unlock_all`; what follows does not matter. */
export function unlockAll(conversation: RequestConversation): Flow {
  conversation.thread.cache.unlockAll(conversation.owner);
  return answer(conversation, REPLY.OK);
}
