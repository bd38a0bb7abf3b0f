import { ByteRegion } from "../../store/base/bytes.ts";
import type { ItemRef } from "../../store/cache.ts";
import { putDone, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import type { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import type { RequestThread } from "../thread_context.ts";
import { refuse } from "./answer.ts";
import { beginWork } from "../text/answer.ts";
import { KeyListing, type KeyWriter } from "../text/keys.ts";

/** A packet a key, then one with no key. */
class BinaryKeys implements KeyWriter {
  readonly #request: BinaryRequest;

  constructor(request: BinaryRequest) {
    this.#request = request;
  }

  put({ reply, cache }: RequestThread, item: ItemRef): void {
    const keyLength = cache.keyLength(item);
    putHeader(reply, this.#request, Status.OK, 0, keyLength, 0, 0, 0);
    cache.copyKey(item, reply.region, reply.length);
    reply.length += keyLength;
  }

  end({ reply }: RequestThread): void {
    putDone(reply, this.#request, 0, 0);
  }
}

/** Keys: all that begin with the request's key. */
export function keys(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const { input, operation, settings } = thread;
  if (settings.disableDumping) return refuse(conversation, binary, Status.REFUSED);
  if (conversation.udp) return refuse(conversation, binary, Status.INVALID);
  const { keyOffset, keyLength } = operation;
  const prefix = new ByteRegion(input.bytes.slice(keyOffset, keyOffset + keyLength).buffer);
  const walk = new KeyListing(thread, prefix, new BinaryKeys(binary.copy()));
  return beginWork(conversation, walk);
}
