import type { RequestThread } from "../thread_context.ts";

/**
 * The fields of a binary request beside the key, the value and the numbers in the operation. One a parser,
 * filled by it for every request.
 */
export class BinaryRequest {
  readonly thread: RequestThread;
  opcode = 0;
  /** Given back in every reply, as int32. */
  opaque = 0;
  /** Success, or a miss of a read, is not answered. */
  quiet = false;
  /** Offset of the extras in the thread's input, and their length in bytes. */
  extrasOffset = 0;
  extrasLength = 0;

  constructor(thread: RequestThread) {
    this.thread = thread;
  }

  /** A copy for a reply that is given later. */
  copy(): BinaryRequest {
    return Object.assign(new BinaryRequest(this.thread), this);
  }
}
