import { type CounterConversation, CounterState } from "../../../lib/counters/conversation.ts";
import { ConversationState } from "../../../protocol/conversation.ts";
import { ReplyBuffer } from "../../../protocol/reply/reply_buffer.ts";
import { WORK, WorkBudget } from "../../../protocol/work_budget.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { INPUT_BYTES, REPLY_BYTES } from "../../../store/limits.ts";
import { bytesOf, textOf } from "./side.ts";

/** Requests in one slice. */
export const SLICE_REQUESTS = 500;

/** A counter table that no transport serves. */
export class CounterBench {
  /** The time on the clock of the counters. */
  nowSec = 0;
  readonly state: CounterState;
  readonly #input = new ByteRegion(new ArrayBuffer(INPUT_BYTES));
  readonly #reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(REPLY_BYTES)));

  constructor(bytesMax = 1e7, intervalSec = 86_400) {
    const thread = {
      input: this.#input,
      reply: this.#reply,
      work: new WorkBudget(SLICE_REQUESTS * WORK.REQUEST),
      nowSec: () => this.nowSec,
    };
    this.state = new CounterState(thread, bytesMax, intervalSec);
  }

  /** Brings bytes, at most `pieceMax` at once. Yields the replies of each slice; ends when the connection closes. */
  *slices(
    conversation: CounterConversation,
    text: string,
    pieceMax = INPUT_BYTES,
  ): Generator<string> {
    const bytes = bytesOf(text);
    for (let from = 0; from < bytes.length;) {
      const piece = bytes.subarray(from, from + Math.min(pieceMax, INPUT_BYTES));
      this.#input.bytes.set(piece);
      from += piece.length;
      for (let at = 0;;) {
        this.#reply.reset();
        at = conversation.feed(at, piece.length);
        yield textOf(this.#reply.region.bytes.subarray(0, this.#reply.length));
        if (conversation.state === ConversationState.CLOSING) return;
        if (conversation.state === ConversationState.NEEDS_INPUT) break;
      }
    }
  }

  /** As `slices`, with all replies together. */
  feed(conversation: CounterConversation, text: string, pieceMax?: number): string {
    return [...this.slices(conversation, text, pieceMax)].join("");
  }
}
