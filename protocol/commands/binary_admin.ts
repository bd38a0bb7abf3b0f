import { ByteRegion } from "../../store/bytes.ts";
import type { ItemRef } from "../../store/item.ts";
import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putDone, putError, putHeader } from "../binary_replies.ts";
import type { BinaryRequest } from "../binary_request.ts";
import type { Conversation } from "../conversation.ts";
import { versionText } from "../replies.ts";
import { Flow } from "../request.ts";
import { Status } from "../status.ts";
import type { ThreadContext } from "../thread_context.ts";
import { WalkTask } from "../walk_task.ts";
import { flush as flushStore } from "./admin.ts";
import { KeysWalk, type KeyWriter } from "./keys.ts";

/** Answers with success and no body, unless the request is quiet. */
export function done(conversation: Conversation): Flow {
  const { binary, reply } = conversation.thread;
  if (!binary.quiet) putDone(reply, binary, 0, 0);
  return Flow.DONE;
}

export function refuse(conversation: Conversation, status: Status): Flow {
  const { binary, reply } = conversation.thread;
  putError(reply, binary, status);
  return Flow.DONE;
}

/** Quit is answered, QuitQ not; then the connection is closed. */
export function quit(conversation: Conversation): Flow {
  done(conversation);
  return Flow.CLOSE;
}

export function flush(conversation: Conversation): Flow {
  const { input, binary } = conversation.thread;
  const delay = binary.extrasLength > 0 ? input.view.getUint32(binary.extrasOffset) : 0;
  return flushStore(conversation, delay)
    ? done(conversation)
    : refuse(conversation, Status.REFUSED);
}

export function version(conversation: Conversation): Flow {
  const { binary, reply, settings } = conversation.thread;
  const text = versionText(settings.version);
  putHeader(reply, binary, Status.OK, 0, 0, text.length, 0, 0);
  reply.text(text);
  return Flow.DONE;
}

// --- locks ---------------------------------------------------------------------------------------

/** Lock and LockQ. Over UDP there is no connection whose end would unlock. */
export function lock(conversation: Conversation): Flow {
  const { cache, change } = conversation.thread;
  if (conversation.udp) return refuse(conversation, Status.INVALID);
  change.waitMs = 0;
  return answer(conversation, cache.lock(change));
}

/** Unlock and UnlockQ. */
export function unlock(conversation: Conversation): Flow {
  const { cache, change } = conversation.thread;
  return answer(conversation, cache.unlock(change));
}

/** UnlockAll and UnlockAllQ. */
export function unlockAll(conversation: Conversation): Flow {
  conversation.thread.cache.unlockAll(conversation.owner);
  return done(conversation);
}

function answer(conversation: Conversation, outcome: Outcome): Flow {
  return outcome === Outcome.OK
    ? done(conversation)
    : refuse(conversation, OUTCOME_STATUS[outcome]);
}

// --- keys ----------------------------------------------------------------------------------------

/** A packet a key, then one with no key. */
class BinaryKeys implements KeyWriter {
  readonly #request: BinaryRequest;

  constructor(request: BinaryRequest) {
    this.#request = request;
  }

  put({ reply, cache }: ThreadContext, item: ItemRef): void {
    const keyLength = cache.items.keyLength(item);
    putHeader(reply, this.#request, Status.OK, 0, keyLength, 0, 0, 0);
    cache.copyKey(item, reply.region, reply.length);
    reply.length += keyLength;
  }

  end({ reply }: ThreadContext): void {
    putDone(reply, this.#request, 0, 0);
  }
}

/** Keys: all that begin with the request's key. */
export function keys(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { input, change, binary, settings } = thread;
  if (!settings.dumpEnabled) return refuse(conversation, Status.REFUSED);
  const { keyOffset, keyLength } = change;
  const prefix = new ByteRegion(input.bytes.slice(keyOffset, keyOffset + keyLength).buffer);
  const walk = new KeysWalk(thread, prefix, new BinaryKeys(binary.copy()));
  conversation.task = new WalkTask(walk);
  return Flow.UNDER_WAY;
}
