import { clockSec } from "../../store/clock.ts";
import { oneWord } from "../../store/base/key_text.ts";
import type { ByteRegion } from "../../store/base/bytes.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { NO_ITEM } from "../../store/cache.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import type { RequestConversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import type { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { WORK } from "../work_budget.ts";
import type { Work } from "../work_task.ts";
import { answer, beginWork, prefixOf } from "./answer.ts";

const PREFIX_WORD = 2;
/** Rows of the table of locks that one step looks at, unless there is a lock to list. */
const ROWS_PER_STEP = 256;

/** The locks on keys that begin with a prefix. */
class LocksWalk implements Work {
  readonly #prefix: ByteRegion;
  #row = 1;

  constructor(prefix: ByteRegion) {
    this.#prefix = prefix;
  }

  step(thread: RequestThread): boolean {
    const { locks } = thread.cache;
    const end = Math.min(this.#row + ROWS_PER_STEP, locks.rowEnd);
    const start = this.#row;
    while (this.#row < end && !this.#put(thread, this.#row++));
    thread.work.chargeRows(this.#row - start);
    return this.#row < locks.rowEnd;
  }

  /** @returns Whether there is a lock that is listed. */
  #put({ cache, reply, memory, connections, work }: RequestThread, row: number): boolean {
    const { locks, inspector } = cache;
    const item = locks.itemOf(row);
    if (item === NO_ITEM) return false;
    work.spent += 1;
    if (!inspector.keyStartsWith(item, this.#prefix)) return false;
    const owner = locks.ownerOf(row) as ConnectionId;
    const number = connections.numberOf(owner);
    const age = clockSec(memory) - locks.sinceSec(row);
    const fence = u64ToNumber(locks.fenceLow(row), locks.fenceHigh(row));
    reply.text(
      `LOCK ${oneWord(inspector.key(item))} conn=${number} ` +
        `peer=${oneWord(connections.peerOf(owner))} age=${age} ` +
        `waiting=${locks.waiters.countOf(row)} fence=${fence}\r\n`,
    );
    work.spent += WORK.CLAIM_LINE;
    return true;
  }

  end({ reply }: RequestThread): void {
    reply.put(REPLY.END);
  }
}

/**
 * `lock list [<prefix>]`: `LOCK <key> conn=<number as in stats conns> peer=<address> age=<seconds>
 * waiting=<connections> fence=<number>` for every lock, then END.
 */
export function listLocks(conversation: RequestConversation): Flow {
  const { settings, request } = conversation.thread;
  if (request.wordCount > PREFIX_WORD + 1) return answer(conversation, REPLY.ERROR);
  if (settings.disableDumping) return answer(conversation, REFUSAL.LOCK_LIST_NOT_ALLOWED);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  return beginWork(conversation, new LocksWalk(prefixOf(conversation, PREFIX_WORD)));
}
