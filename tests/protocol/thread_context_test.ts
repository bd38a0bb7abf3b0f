import { assert } from "@std/assert";
import type { RequestConversation } from "../../protocol/conversation.ts";
import type { StatThread } from "../../protocol/thread_context.ts";

/** Never called: the compiler refuses each line that has no error. */
function handler({ thread, protocols }: RequestConversation, statThread: StatThread): void {
  // @ts-expect-error Parsers and reads take the mutex.
  thread.hold();
  // @ts-expect-error Parsers and tasks yield it.
  thread.yieldMutex();
  // @ts-expect-error Reads release it.
  thread.releaseForReads();
  // @ts-expect-error Only `refresh_certs` works without it.
  thread.withoutMutex(() => 0);
  // @ts-expect-error The conversation ends the batch.
  thread.endBatch();
  // @ts-expect-error No way round the batch.
  thread.cache.leave();
  // @ts-expect-error No way round the batch.
  thread.cache.yieldMutex();
  // @ts-expect-error The whole thread is for the conversation.
  assert(protocols.thread);
  // @ts-expect-error Statistics are written inside a batch, too.
  statThread.cache.enter();
}

Deno.test("handlers and statistics can neither take nor leave the mutex", () => {
  assert(handler.length === 2, "types are checked before this runs");
});
