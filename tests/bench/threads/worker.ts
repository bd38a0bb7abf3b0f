/// <reference lib="deno.worker" />
// One of the threads that feed conversations over one store, or over a store of its own.
import type { Settings } from "../../../protocol/settings.ts";
import { type SharedState, ThreadContext } from "../../../protocol/thread_context.ts";
import { checkReply, seededRandom, THREAD_ROWS } from "../rows.ts";
import { Feeder } from "./feeder.ts";

/** A store, and the settings of its server. */
export interface FedStore {
  readonly shared: SharedState;
  readonly settings: Settings;
}

/** What to do next. Stores are named by the number of threads that share them; 1: the thread's own. */
export type FeedOrder =
  | {
    readonly kind: "open";
    /** Number of the thread, from 0. */
    readonly index: number;
    readonly stores: readonly FedStore[];
  }
  | { readonly kind: "load"; readonly row: string }
  | {
    readonly kind: "run";
    readonly store: number;
    readonly seconds: number;
    /** One word, which counts the threads that are ready; 0 before. */
    readonly ready: SharedArrayBuffer;
    /** How many threads begin together. */
    readonly parties: number;
  };

/** Replies that are compared byte for byte before the load. */
const CHECKED_BATCHES = 50;
/** A number that no connection of the table has. */
const OWNER_BASE = 1_000_000;

let threadIndex = 0;
let threads: readonly ThreadContext[] = [];
/** By the store's name. */
const feeders = new Map<number, Feeder>();

self.onmessage = ({ data }: MessageEvent<FeedOrder>) => self.postMessage(obey(data));

/** @returns Requests, or keys, a second, for `run`. */
function obey(order: FeedOrder): number {
  if (order.kind === "run") {
    waitForAll(order.ready, order.parties);
    return feeders.get(order.store)!.run(order.seconds);
  }
  if (order.kind === "load") load(order.row);
  else open(order.index, order.stores);
  return 0;
}

function open(index: number, stores: readonly FedStore[]): void {
  threadIndex = index;
  threads = stores.map(({ shared, settings }) => {
    const thread = new ThreadContext(shared, settings, {
      shutdown: () => {},
      processState: () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
      tokensDropped: () => {},
      authenticate: () => {},
    }, settings.threads > 1 ? index : 0);
    thread.cache.mutex.nowMs = () => performance.now();
    return thread;
  });
}

/** Makes the row's batches and compares the first replies. @throws Error when one is wrong. */
function load(name: string): void {
  const row = THREAD_ROWS.find((one) => one.name === name)!;
  const batches = row.batches(seededRandom(threadIndex + 1));
  const check = checkReply(batches);
  for (const thread of threads) {
    const feeder = new Feeder(thread, OWNER_BASE + threadIndex, batches);
    for (let index = 0; index < CHECKED_BATCHES; index++) check(index, feeder.ask(batches[index]!));
    feeders.set(thread.settings.threads, feeder);
  }
}

function waitForAll(ready: SharedArrayBuffer, parties: number): void {
  const words = new Int32Array(ready);
  let count = Atomics.add(words, 0, 1) + 1;
  Atomics.notify(words, 0);
  while (count < parties) {
    Atomics.wait(words, 0, count);
    count = Atomics.load(words, 0);
  }
}
