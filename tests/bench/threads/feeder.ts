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

/** Packs batches into as few inputs as they fit, in order. */
function inputLoads(batches: readonly Batch[]): InputLoad[] {
  const loads: InputLoad[] = [];
  for (let first = 0; first < batches.length;) {
    let length = 0;
    let end = first;
    while (end < batches.length && length + batches[end]!.bytes.length <= INPUT_BYTES) {
      length += batches[end++]!.bytes.length;
    }
    if (end === first) {
      throw new RangeError(`Cannot feed a batch of more than ${INPUT_BYTES} bytes`);
    }
    loads.push(inputLoad(batches.slice(first, end), length));
    first = end;
  }
  return loads;
}

function inputLoad(batches: readonly Batch[], length: number): InputLoad {
  const bytes = new Uint8Array(length);
  const ends = new Int32Array(batches.length);
  let at = 0;
  let count = 0;
  for (const [index, batch] of batches.entries()) {
    bytes.set(batch.bytes, at);
    at += batch.bytes.length;
    ends[index] = at;
    count += batch.count;
  }
  return { bytes, ends, count };
}
