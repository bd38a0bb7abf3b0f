import { type Conversation, ConversationState, type Task } from "./conversation.ts";
import { REPLY_ROOM_MIN } from "./reply/reply_buffer.ts";
import type { RequestThread } from "./thread_context.ts";

/** Work of one request that takes longer than others: a list, a dump, a page move. */
export interface Work {
  /**
   * Does the next piece, of 100 units at most, and adds them to `thread.work.spent`. Writes to the reply, where there
   * is room of REPLY_ROOM_MIN, and no more.
   *
   * @returns Whether there may be more to do.
   */
  step(thread: RequestThread): boolean;
  /** Writes what ends the reply. */
  end(thread: RequestThread): void;
}

/** Does long work in slices, without holding the store or the thread for long. */
export class WorkTask implements Task {
  readonly #work: Work;

  constructor(work: Work) {
    this.#work = work;
  }

  run(conversation: Conversation, start: number, _end: number): number {
    const { thread } = conversation;
    const { reply, work } = thread;
    do {
      if (reply.room < REPLY_ROOM_MIN || work.isSpent) {
        conversation.pause(ConversationState.UNFINISHED);
        return start;
      }
      if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) thread.yieldMutex();
      work.spent += 1;
    } while (this.#work.step(thread));
    this.#work.end(thread);
    conversation.task = null;
    return start;
  }

  abandon(): void {}
}

/** Bytes of a text that are written in one step. */
const TEXT_STEP_BYTES = 2048;
/** Cost of a piece of text: these units, and one more for each CHARACTERS_PER_UNIT. */
const PIECE_UNITS = 3;
const CHARACTERS_PER_UNIT = 16;

/** Text that is made while it is sent: statistics and dumps. */
export class TextWork implements Work {
  readonly #pieces: Iterator<string>;
  #piece = "";
  #sent = 0;

  /** @param pieces Strings of characters below 256. An empty one only marks that work was done, and charged. */
  constructor(pieces: Iterable<string>) {
    this.#pieces = pieces[Symbol.iterator]();
  }

  step({ reply, work }: RequestThread): boolean {
    if (this.#sent === this.#piece.length) {
      const next = this.#pieces.next();
      if (next.done) return false;
      this.#piece = next.value;
      this.#sent = 0;
      work.spent += PIECE_UNITS;
    }
    const end = Math.min(this.#piece.length, this.#sent + TEXT_STEP_BYTES);
    reply.text(this.#piece.slice(this.#sent, end));
    work.spent += Math.ceil((end - this.#sent) / CHARACTERS_PER_UNIT);
    this.#sent = end;
    return true;
  }

  end(): void {}
}
