import { type Conversation, ConversationState, type Task } from "./conversation.ts";
import { REPLY_ROOM_MIN } from "./reply_buffer.ts";
import type { ThreadContext } from "./thread_context.ts";

/**
 * What a walk may cost before other threads have their turn with the store, in items looked at:
 * below 100 microseconds.
 */
const SLICE_COST = 256;
/** Slices before other connections of the thread have theirs. */
const SLICES_PER_TURN = 16;

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
    let slices = 0;
    for (;;) {
      if (reply.room < REPLY_ROOM_MIN || slices === SLICES_PER_TURN) {
        conversation.pause(ConversationState.MORE_OUTPUT);
        return start;
      }
      const added = this.#walk.step(thread);
      if (added === 0) break;
      cost += added;
      if (cost < SLICE_COST) continue;
      cost = 0;
      slices++;
      cache.yieldMutex();
    }
    this.#walk.end(thread);
    conversation.task = null;
    return start;
  }

  abandon(): void {}
}
