import { OWNER_TAG_LENGTH_MAX, WaiterState } from "../store/cache.ts";
import { INPUT_BYTES } from "../store/limits.ts";
import { type Conversation, ConversationState, type Task } from "./conversation.ts";
import type { ThreadContext } from "./thread_context.ts";

/** Charges an operation that walks a key's tokens: in the worst case all tokens are on that key. */
export function chargeTokens({ cache, work }: ThreadContext): void {
  work.chargeRows(cache.inspector.tokenCount);
}

/** Writes a protocol's reply to `token get` when its record has been written, or could not be. */
export interface TokenReply {
  /** The token is out. */
  granted(thread: ThreadContext, idLow: number, idHigh: number): void;
  /** The token could not be persisted, and is not out. */
  failed(thread: ThreadContext): void;
}

/** Makes a connection wait until its update token is on the disk; its thread serves others meanwhile. */
export class TokenWait implements Task {
  readonly awaitsServer = true;
  readonly #waiter: number;
  readonly #reply: TokenReply;

  /** @param waiter `operation.waiter`. */
  constructor(waiter: number, reply: TokenReply) {
    this.#waiter = waiter;
    this.#reply = reply;
  }

  run(conversation: Conversation, start: number, _end: number): number {
    const { thread } = conversation;
    const { waiters } = thread.cache.tokens;
    const state = waiters.stateOf(this.#waiter);
    if (state === WaiterState.WAITING) {
      conversation.pause(ConversationState.WAITING);
      return start;
    }
    const idLow = waiters.idLow(this.#waiter);
    const idHigh = waiters.idHigh(this.#waiter);
    waiters.remove(this.#waiter);
    conversation.task = null;
    if (state === WaiterState.GRANTED) this.#reply.granted(thread, idLow, idHigh);
    else this.#reply.failed(thread);
    return start;
  }

  abandon(thread: ThreadContext): void {
    thread.cache.tokens.waiters.remove(this.#waiter);
  }
}

/** An owner's tag has printable ASCII only. */
const PRINTABLE_FIRST = 0x21;
const PRINTABLE_LAST = 0x7e;

/**
 * Names the requester of a token in the operation: the owner's tag, at [start, end) of the input, and the connection.
 * The name of its peer is copied behind the input.
 *
 * @returns False when the tag is longer than 64 bytes or has bytes that are not printable ASCII.
 */
export function readTokenOwner(
  { thread, owner }: Conversation,
  start: number,
  end: number,
): boolean {
  const { input, operation, connections } = thread;
  const length = end - start;
  if (length > OWNER_TAG_LENGTH_MAX) return false;
  for (let at = 0; at < length; at++) {
    const byte = input.bytes[start + at]!;
    if (byte < PRINTABLE_FIRST || byte > PRINTABLE_LAST) return false;
  }
  operation.tagOffset = start;
  operation.tagLength = length;
  operation.peerOffset = INPUT_BYTES;
  operation.peerLength = connections.copyPeer(owner, input.bytes, INPUT_BYTES);
  operation.thread = connections.threadOf(owner);
  return true;
}
