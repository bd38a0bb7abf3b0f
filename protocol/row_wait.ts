import type { RowSession } from "../store/cache.ts";
import { ConversationState, type RequestConversation, type Task } from "./conversation.ts";
import type { RequestThread } from "./thread_context.ts";

/**
 * Makes a connection wait until the database thread has answered a request for a row. Then the connection executes the
 * request once more: see `RowParking`.
 */
export class RowWait implements Task {
  readonly awaitsServer = true;
  readonly #slot: number;
  readonly #successor: Task | null;

  /** @param successor What asked for the row; null: a request in the input. */
  constructor({ cache }: RequestThread, successor: Task | null, slot = cache.parking!.awaited) {
    this.#slot = slot;
    this.#successor = successor;
    cache.parking!.hasParked = false;
  }

  run(conversation: RequestConversation, start: number, _end: number): number {
    if (conversation.thread.cache.parking!.isAnswered(this.#slot)) {
      conversation.task = this.#successor;
    } else {
      conversation.pause(ConversationState.WAITING);
    }
    return start;
  }

  abandon(thread: RequestThread): void {
    this.#successor?.abandon(thread);
  }
}

/**
 * Makes a connection wait for the database. Takes back what its request has replied, and executes those behind it ahead
 * of their turn: see `RowParking`.
 *
 * @param run Executes one; returns false to end.
 */
export function park(conversation: RequestConversation, run: () => boolean): void {
  const { cache, reply, request: { replyStart } } = conversation.thread;
  const parking = cache.parking!;
  const session: RowSession = parking.session!;
  const { awaited } = parking;
  if (session.slots.length === 1 && !session.awaitsRoom) {
    parking.isAhead = true;
    parking.hasLeftAhead = false;
    do parking.hasParked = false; while (!parking.hasLeftAhead && run());
    parking.isAhead = false;
    conversation.valueMissing = false;
  }
  reply.length = replyStart;
  conversation.task = new RowWait(conversation.thread, null, awaited);
}

/** Asks the database for the rows of the prefetched keys from `first` on, unless the cache has them. */
export function readRowsAhead({ thread, owner }: RequestConversation, first: number): void {
  const { cache: { prefetch, parking }, input } = thread;
  for (let index = first; index < prefetch.count; index++) {
    const keyOffset = prefetch.keyOffset(index);
    const keyLength = prefetch.keyLength(index);
    parking!.readAhead({ input, keyOffset, keyLength, hash: prefetch.hashAt(index) }, owner);
  }
}
