/// <reference lib="deno.worker" />
// A thread that works under the mutex all the time, and yields it between the pieces as long work does.
import { Cache } from "../../../store/cache.ts";
import { Memory, type SharedMemory } from "../../../store/memory/memory.ts";

/** Words of `HolderOrder.words`. */
export const HOLDER = {
  /** Pieces done by all holders. */
  TURNS: 0,
  /** 1: the holders shall end. */
  DONE: 1,
  WORDS: 2,
} as const;

export interface HolderOrder {
  readonly memory: SharedMemory;
  /** HOLDER words, shared by all threads. */
  readonly words: Int32Array;
}

/** One piece: some tens of microseconds. */
const PIECE_STEPS = 20_000;

self.onmessage = ({ data }: MessageEvent<HolderOrder>) => {
  hold(data);
  self.postMessage(null);
  self.close();
};

function hold({ memory, words }: HolderOrder): void {
  const cache = new Cache(new Memory(memory));
  cache.enter();
  while (Atomics.load(words, HOLDER.DONE) === 0) {
    for (let step = 0; step < PIECE_STEPS; step++) Atomics.load(words, HOLDER.DONE);
    Atomics.add(words, HOLDER.TURNS, 1);
    cache.yieldMutex();
  }
  cache.leave();
}
