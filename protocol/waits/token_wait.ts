import { OWNER_TAG_LENGTH_MAX, WaiterState } from "../../store/cache.ts";
import { INPUT_BYTES } from "../../store/limits.ts";
import type { RequestConversation } from "../conversation.ts";
import type { RequestThread } from "../thread_context.ts";
import { StoreWait } from "./wait.ts";

/** Charges an operation that walks a key's tokens: in the worst case all tokens are on that key. */
export function chargeTokens({ cache, work }: RequestThread): void {
  work.chargeRows(cache.inspector.tokenCount);
}

/** Writes a protocol's reply to `token get` when its record has been written, or could not be. */
export interface TokenReply {
  /** The token is out. */
  granted(thread: RequestThread, idLow: number, idHigh: number): void;
  /** The token could not be persisted, and is not out. */
  failed(thread: RequestThread): void;
}

/** A connection waits until its update token is on the disk. */
export class TokenWait extends StoreWait {
  readonly #reply: TokenReply;

  constructor({ cache, operation }: RequestThread, reply: TokenReply) {
    super(cache.tokens.waiters, operation.waiter, true);
    this.#reply = reply;
  }

  protected answer({ thread }: RequestConversation): void {
    const { waiter, waiters } = this;
    if (waiters.stateOf(waiter) !== WaiterState.GRANTED) this.#reply.failed(thread);
    else this.#reply.granted(thread, waiters.idLow(waiter), waiters.idHigh(waiter));
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
  { thread, owner }: RequestConversation,
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
