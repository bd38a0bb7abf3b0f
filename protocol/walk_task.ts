import { type Conversation, ConversationState, type Task } from "./conversation.ts";
import { REPLY_ROOM_MIN } from "./reply_buffer.ts";
import type { ThreadContext } from "./thread_context.ts";

/** What a walk may cost in one hold of the mutex, in items visited: below 100 microseconds. */
const HOLD_COST = 256;
/** Holds of the mutex in one slice of the thread; then other connections are served. */
const HOLDS_PER_SLICE = 16;

/** A list that is made while it is sent. */
export interface Walk {
  /**
   * Writes the next few entries to the reply, where there is room of REPLY_ROOM_MIN, and no more.
   *
   * @returns What it cost, in items looked at; 0: that was all.
   */
  step(thread: ThreadContext): number;
  /** Writes what ends the list. */
  end(thread: ThreadContext): void;
}

/** Sends a list, however long, without holding the store or the thread for long. */
export class WalkTask implements Task {
  readonly #walk: Walk;

  constructor(walk: Walk) {
    this.#walk = walk;
  }

  run(conversation: Conversation, start: number, _end: number): number {
    const { thread } = conversation;
    const { reply, cache } = thread;
    let cost = 0;
    let holds = 0;
    for (;;) {
      if (reply.room < REPLY_ROOM_MIN || holds === HOLDS_PER_SLICE) {
        conversation.pause(ConversationState.MORE_OUTPUT);
        return start;
      }
      const added = this.#walk.step(thread);
      if (added === 0) break;
      cost += added;
      if (cost < HOLD_COST) continue;
      cost = 0;
      holds++;
      cache.yieldMutex();
    }
    this.#walk.end(thread);
    conversation.task = null;
    return start;
  }

  abandon(): void {}
}
