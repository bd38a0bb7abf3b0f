import { clockSec } from "../../store/clock.ts";
import type { ByteRegion } from "../../store/base/bytes.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { NO_ITEM } from "../../store/cache.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import type { Conversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../replies.ts";
import { Flow } from "../request.ts";
import type { ThreadContext } from "../thread_context.ts";
import { type Walk, WalkTask } from "../walk_task.ts";
import { answer, prefixOf } from "./answer.ts";

const PREFIX_WORD = 2;
/** A lock costs as much as a few items of another walk. */
const LOCK_COST = 8;

const LOCK = new TextEncoder().encode("LOCK ");

/** The locks on keys that begin with a prefix. */
class LocksWalk implements Walk {
  readonly #prefix: ByteRegion;
  #row = 1;

  constructor(prefix: ByteRegion) {
    this.#prefix = prefix;
  }

  step(thread: ThreadContext): number {
    const { cache, reply, memory, connections } = thread;
    const { locks, inspector } = cache;
    if (this.#row >= locks.rowEnd) return 0;
    const row = this.#row++;
    const item = locks.itemOf(row);
    if (
      item === NO_ITEM || !inspector.keyStartsWith(item, this.#prefix) ||
      !inspector.isKeyOneWord(item)
    ) {
      return 1;
    }
    const owner = locks.ownerOf(row) as ConnectionId;
    const number = connections.numberOf(owner);
    const age = clockSec(memory) - locks.sinceSec(row);
    const fence = u64ToNumber(locks.fenceLow(row), locks.fenceHigh(row));
    reply.put(LOCK);
    cache.copyKey(item, reply.region, reply.length);
    reply.length += cache.keyLength(item);
    reply.text(
      ` conn=${number} peer=${connections.peerOf(owner)} age=${age} ` +
        `waiting=${locks.waiters.countOf(row)} fence=${fence}\r\n`,
    );
    return LOCK_COST;
  }

  end({ reply }: ThreadContext): void {
    reply.put(REPLY.END);
  }
}

/**
 * `lock list [<prefix>]`: `LOCK <key> conn=<number as in stats conns> peer=<address> age=<seconds>
 * waiting=<connections> fence=<number>` for every lock, then END.
 */
export function listLocks(conversation: Conversation): Flow {
  const { settings, request } = conversation.thread;
  if (request.wordCount > PREFIX_WORD + 1) return answer(conversation, REPLY.ERROR);
  if (!settings.dumpEnabled) return answer(conversation, REFUSAL.LOCK_LIST_NOT_ALLOWED);
  conversation.task = new WalkTask(new LocksWalk(prefixOf(conversation, PREFIX_WORD)));
  return Flow.UNDER_WAY;
}
