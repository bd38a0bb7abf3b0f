import { type Waiters, WaiterState } from "../../store/cache.ts";
import { type Conversation, ConversationState, type Task } from "../conversation.ts";
import type { RequestThread } from "../thread_context.ts";

/**
 * A connection that waits for the server or for another connection; its thread serves others. When the wait ends, the
 * connection enters the list that `ThreadContext.takeReady` empties: the transport feeds it, and the wait answers.
 */
export abstract class Wait implements Task {
  /** Whether it waits for the server alone, see `Task`. */
  readonly awaitsServer: boolean;

  /** @param awaitsServer See `Task`. */
  constructor(awaitsServer: boolean) {
    this.awaitsServer = awaitsServer;
  }

  run(conversation: Conversation, start: number, _end: number): number {
    if (this.isOver(conversation.thread)) {
      conversation.task = null;
      this.answer(conversation);
      this.abandon(conversation.thread);
    } else {
      conversation.pause(ConversationState.WAITING);
    }
    return start;
  }

  /** Whether there is an answer. */
  protected abstract isOver(thread: RequestThread): boolean;

  /** Writes the answer. */
  protected abstract answer(conversation: Conversation): void;

  /** Gives back what the wait holds, after the answer or when the connection is gone. */
  abstract abandon(thread: RequestThread): void;
}

/** A wait with a row in the store. */
export abstract class StoreWait extends Wait {
  protected readonly waiters: Waiters;
  /** The row. */
  protected readonly waiter: number;

  /** @param waiter `operation.waiter`. */
  constructor(waiters: Waiters, waiter: number, awaitsServer: boolean) {
    super(awaitsServer);
    this.waiters = waiters;
    this.waiter = waiter;
  }

  protected isOver(): boolean {
    return this.waiters.stateOf(this.waiter) !== WaiterState.WAITING;
  }

  abandon(): void {
    this.waiters.remove(this.waiter);
  }
}
