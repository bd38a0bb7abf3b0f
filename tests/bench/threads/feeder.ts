// Hot path: the loop costs as little as it can beside the requests.
import type { Conversation } from "../../../protocol/conversation.ts";
import type { ThreadContext } from "../../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import type { ConnectionId } from "../../../store/connections.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import type { Batch } from "../generator.ts";

/** Batches that fill one input buffer, as if one read had brought each of them. */
interface InputLoad {
  readonly bytes: Uint8Array;
  /** Where each batch ends; the next one begins there. */
  readonly ends: Int32Array;
  /** Requests or keys in all. */
  readonly count: number;
}

/** Feeds one conversation with batches, without a transport. */
export class Feeder {
  readonly #thread: ThreadContext;
  readonly #conversation: Conversation;
  readonly #loads: readonly InputLoad[];
  /** The load to go on with. */
  #next = 0;

  constructor(thread: ThreadContext, owner: number, batches: readonly Batch[]) {
    this.#thread = thread;
    const protocols = new ThreadProtocols(thread);
    this.#conversation = protocols.open(owner as ConnectionId, { protocol: "auto" });
    this.#loads = inputLoads(batches);
  }

  /** Feeds one batch and returns its replies. */
  ask({ bytes }: Batch): Uint8Array {
    const { input, reply } = this.#thread;
    input.bytes.set(bytes);
    const replies: number[] = [];
    for (let at = 0; at < bytes.length;) {
      reply.reset();
      at = this.#conversation.feed(at, bytes.length);
      replies.push(...reply.region.bytes.subarray(0, reply.length));
    }
    return Uint8Array.from(replies);
  }

  /** Feeds for so many seconds. Returns requests, or keys, a second. */
  run(seconds: number): number {
    const { input } = this.#thread;
    const startMs = performance.now();
    const endMs = startMs + seconds * 1000;
    let count = 0;
    let nowMs = startMs;
    for (; nowMs < endMs; nowMs = performance.now()) {
      const load = this.#loads[this.#next++ % this.#loads.length]!;
      input.bytes.set(load.bytes);
      this.#feed(load.ends);
      count += load.count;
    }
    return count / (nowMs - startMs) * 1000;
  }

  #feed(ends: Int32Array): void {
    const { reply } = this.#thread;
    const conversation = this.#conversation;
    let at = 0;
    for (let index = 0; index < ends.length; index++) {
      const end = ends[index]!;
      while (at < end) {
        reply.reset();
        at = conversation.feed(at, end);
      }
    }
  }
}

/** Packs batches, in order, into inputs that are as full as possible. */
function inputLoads(batches: readonly Batch[]): InputLoad[] {
  const groups: Batch[][] = [];
  let length = Infinity;
  for (const batch of batches) {
    length += batch.bytes.length;
    if (length <= INPUT_BYTES) {
      groups.at(-1)!.push(batch);
      continue;
    }
    groups.push([batch]);
    length = batch.bytes.length;
  }
  return groups.map((group) => {
    let end = 0;
    const ends = Int32Array.from(group, ({ bytes }) => end += bytes.length);
    const bytes = new Uint8Array(end);
    for (const [index, batch] of group.entries()) bytes.set(batch.bytes, ends[index - 1] ?? 0);
    return { bytes, ends, count: group.reduce((sum, { count }) => sum + count, 0) };
  });
}
