import type { ByteRegion } from "../../store/base/bytes.ts";
import type { ItemRef } from "../../store/cache.ts";
import type { Inspector } from "../../store/inspector.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import type { RequestConversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import type { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import type { Work } from "../work_task.ts";
import { answer, beginWork, prefixOf } from "./answer.ts";

/** The cost of writing a key, in units of work. */
const KEY_UNITS = 2;

/** How a protocol writes the list of keys. */
export interface KeyWriter {
  /** Writes one key. There is room for it, and for many more. */
  put(thread: RequestThread, item: ItemRef): void;
  end(thread: RequestThread): void;
}

/** The keys of all live values that begin with a prefix. */
export class KeyListing implements Work {
  readonly #thread: RequestThread;
  readonly #walk: ReturnType<Inspector["walkKeys"]>;
  readonly #prefix: ByteRegion;
  readonly #writer: KeyWriter;
  readonly #visit: (item: ItemRef) => void;

  /** @param prefix Empty: all keys. */
  constructor(thread: RequestThread, prefix: ByteRegion, writer: KeyWriter) {
    this.#thread = thread;
    this.#walk = thread.cache.inspector.walkKeys();
    this.#prefix = prefix;
    this.#writer = writer;
    this.#visit = (item) => this.#put(item);
  }

  step({ work }: RequestThread): boolean {
    if (this.#walk.isDone) return false;
    work.spent += this.#walk.visit(this.#visit);
    this.#walk.next();
    return true;
  }

  end(): void {
    this.#writer.end(this.#thread);
  }

  #put(item: ItemRef): void {
    const { reply, cache } = this.#thread;
    // More keys than that in a bucket have never been seen; they would be left out.
    if (reply.room < 2 * KEY_LENGTH_MAX || !cache.inspector.keyStartsWith(item, this.#prefix)) {
      return;
    }
    this.#thread.work.spent += KEY_UNITS;
    this.#writer.put(this.#thread, item);
  }
}

const VALUE = new TextEncoder().encode("VALUE ");

/** `VALUE <key>` lines, then END. Keys that are no word of the text protocol can only be listed by the binary one. */
const TEXT_KEYS: KeyWriter = {
  put(thread, item): void {
    const { reply, cache } = thread;
    if (!cache.inspector.isKeyOneWord(item)) return;
    reply.put(VALUE);
    cache.copyKey(item, reply.region, reply.length);
    reply.length += cache.keyLength(item);
    reply.crlf();
  },
  end({ reply }): void {
    reply.put(REPLY.END);
  },
};

/** `keys [<prefix>]`; further words do not matter. */
export function keys(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  if (thread.settings.disableDumping) return answer(conversation, REFUSAL.KEYS_NOT_ALLOWED);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  const walk = new KeyListing(thread, prefixOf(conversation, 1), TEXT_KEYS);
  return beginWork(conversation, walk);
}
