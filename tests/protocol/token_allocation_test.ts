import { assertLess } from "@std/assert";
import { ByteRegion } from "../../store/base/bytes.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { allocatedBytes, ALLOCATION_TRIES } from "../support/load/feed_loop.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { bytesOf } from "../support/sessions/side.ts";

const WARM_UP_PAIRS = 20_000;
const PAIRS = 5000;
/** For the one object that a waiting connection needs. */
const BYTES_PER_PAIR_MAX = 200;
const OWNER = 1_000_000 as ConnectionId;
const RECORDS_BYTES = 1024;
/** The reply without the id. */
const TOKEN_SPACE = "TOKEN ".length;
const OK_LENGTH = "OK\r\n".length;

/** A writer, and a journal whose thread is this test: both reuse their memory. */
class TokenLoop {
  readonly #side = new ConversationSide(["--state-dir", "/nowhere"]);
  readonly #conversation = this.#side.protocols.open(OWNER, { protocol: "auto" });
  readonly #records = new ByteRegion(new ArrayBuffer(RECORDS_BYTES));
  readonly #get = bytesOf("token get key owner\r\n");
  readonly #release = bytesOf("token release key ");

  run(pairs: number): void {
    const { input, reply } = this.#side.thread;
    for (let pair = 0; pair < pairs; pair++) {
      input.bytes.set(this.#get);
      this.#feed(this.#get.length);
      require(reply.isEmpty, "a token get that does not wait");
      this.#write();
      this.#feed(0);
      const release = this.#release.length;
      input.bytes.set(this.#release);
      const { bytes } = reply.region;
      for (let at = TOKEN_SPACE; at < reply.length; at++) {
        input.bytes[release + at - TOKEN_SPACE] = bytes[at]!;
      }
      this.#feed(release + reply.length - TOKEN_SPACE);
      require(reply.length === OK_LENGTH, "a release that is not OK");
    }
  }

  #feed(length: number): void {
    this.#side.thread.reply.reset();
    this.#conversation.feed(0, length);
  }

  #write(): void {
    const { cache } = this.#side.thread;
    const { queue } = cache.journal;
    const { length } = queue;
    queue.copy(this.#records, length);
    const position = queue.take(length);
    cache.enter();
    cache.journal.settle(this.#records, 0, length, Infinity, true);
    cache.journal.settleWaiters(position);
    cache.leave();
    this.#side.thread.takeReady(0, ignore);
  }
}

function ignore(): void {}

function require(condition: boolean, otherwise: string): void {
  if (!condition) throw new Error(otherwise);
}

Deno.test("a pair of token get and token release allocates one small object", () => {
  const loop = new TokenLoop();
  loop.run(WARM_UP_PAIRS);
  let least = Infinity;
  for (let attempt = 0; attempt < ALLOCATION_TRIES; attempt++) {
    const before = allocatedBytes();
    loop.run(PAIRS);
    least = Math.min(least, (allocatedBytes() - before) / PAIRS);
  }
  assertLess(least, BYTES_PER_PAIR_MAX);
});
