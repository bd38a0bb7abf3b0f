/// <reference lib="deno.worker" />
// One of the threads that feed conversations over one store, or over a store of its own.
import type { Conversation } from "../../protocol/conversation.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../protocol/thread_protocols.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { INPUT_BYTES } from "../../store/limits.ts";
import { joinThread, type Shared } from "../support/threads.ts";
import type { Batch } from "./base/generator.ts";
import { rowOf, seededRandom, verify } from "./base/rows.ts";
import { serve } from "./base/workers.ts";

/** Batches that fill one input buffer, as if one read had brought each of them. */
interface InputLoad {
  readonly bytes: Uint8Array;
  /** The end of each batch; the next one begins there. */
  readonly ends: Int32Array;
  /** Requests or keys in all. */
  readonly count: number;
}

/** Replies that are compared byte for byte before the load. */
const CHECKED_BATCHES = 50;
/** A number that no connection of the table has. */
const OWNER_BASE = 1_000_000;

let threadIndex = 0;
let threads: readonly ThreadContext[] = [];
/** By the number of threads that share the store; 1: the thread's own. */
const feeders = new Map<number, Feeder>();

export type FeedHandlers = typeof handlers;
const handlers = serve({
  open(index: number, stores: readonly Shared[]): void {
    threadIndex = index;
    threads = stores.map((store) => {
      const thread = joinThread(store, store.settings.threads > 1 ? index : 0);
      thread.cache.mutex.nowMs = () => performance.now();
      return thread;
    });
  },

  /** Makes the row's batches and compares the first replies. @throws Error when one is wrong. */
  load(name: string): void {
    const batches = rowOf(name).batches(seededRandom(threadIndex + 1));
    for (const thread of threads) {
      const feeder = new Feeder(thread, batches);
      verify(feeder, batches.slice(0, CHECKED_BATCHES));
      feeders.set(thread.settings.threads, feeder);
    }
  },

  /**
   * Begins when all are ready, and feeds the store that `sharing` threads share for so many seconds.
   *
   * @param ready One word, which counts the threads that are ready; 0 before.
   * @returns Requests, or keys, a second.
   */
  run(
    sharing: number,
    seconds: number,
    ready: Int32Array<SharedArrayBuffer>,
    parties: number,
  ): number {
    let count = Atomics.add(ready, 0, 1) + 1;
    Atomics.notify(ready, 0);
    while (count < parties) {
      Atomics.wait(ready, 0, count);
      count = Atomics.load(ready, 0);
    }
    return feeders.get(sharing)!.run(seconds);
  },
});

// Hot path: the loop costs as little as it can beside the requests.

/** Feeds one conversation with batches, without a transport. */
class Feeder {
  readonly #thread: ThreadContext;
  readonly #conversation: Conversation;
  readonly #loads: readonly InputLoad[];
  /** The load to go on with. */
  #next = 0;

  constructor(thread: ThreadContext, batches: readonly Batch[]) {
    this.#thread = thread;
    const owner = OWNER_BASE + threadIndex as ConnectionId;
    this.#conversation = new ThreadProtocols(thread).open(owner, { protocol: "auto" });
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
    const startMs = performance.now();
    let count = 0;
    let nowMs = startMs;
    for (; nowMs < startMs + seconds * 1000; nowMs = performance.now()) {
      const load = this.#loads[this.#next++ % this.#loads.length]!;
      this.#thread.input.bytes.set(load.bytes);
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
  const loads: InputLoad[] = [];
  for (let first = 0, next = 0; first < batches.length; first = next) {
    const bytes = new Uint8Array(INPUT_BYTES);
    const ends: number[] = [];
    let [end, count] = [0, 0];
    for (; next < batches.length; next++) {
      const batch = batches[next]!;
      if (end + batch.bytes.length > INPUT_BYTES) break;
      bytes.set(batch.bytes, end);
      ends.push(end += batch.bytes.length);
      count += batch.count;
    }
    loads.push({ bytes: bytes.slice(0, end), ends: Int32Array.from(ends), count });
  }
  return loads;
}
