import {
  assertEquals,
  assertGreater,
  assertLess,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { Mutex } from "../../../store/memory/mutex.ts";
import { THREAD_STAT } from "../../../store/stats.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { waitingFor } from "../../support/waiting.ts";
import { HOLDER, type HolderOrder } from "../../support/load/holder_worker.ts";
import { TestStore } from "../../support/store.ts";
import type { StressOrder, StressReport } from "../../support/load/stress_worker.ts";
import { roundsOf } from "../../support/rounds.ts";

const ROUNDS = roundsOf(1200);
const WORKER = new URL("../../support/load/stress_worker.ts", import.meta.url);
const HOLDER_WORKER = new URL("../../support/load/holder_worker.ts", import.meta.url);
const HAND_OVERS = 200;
/** Pieces that others do while a thread waits: some 20 on a busy machine. Without hand-over by one, thousands. */
const TURNS_MAX = 200;
/** Slab classes in which the stress has pages: as targets of page moves. */
const TARGETS = ["1", "5", "20", "40", "0"];
const MOVE_REPLY = /^(?:OK|BUSY|BADCLASS|NOSPARE|NOTFULL|UNSAFE|SAME)\b.*\r\n$/;

function startWorker(order: StressOrder): Promise<StressReport> {
  const worker = new Worker(WORKER, { type: "module" });
  worker.postMessage(order);
  const report = new Promise<StressReport>((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<StressReport>) => resolve(data);
    worker.onerror = ({ message }) => resolve({ swaps: 0, error: message });
  });
  return waitingFor("a worker's report", report, Infinity);
}

/**
 * Lets threads loose on one store, maintains it and moves its pages meanwhile as the main thread does, and checks what
 * came of it.
 */
async function stress(threads: number, options: readonly string[], seed: number): Promise<void> {
  const side = new ConversationSide(["-t", String(threads + 1), ...options]);
  const peer = side.connect();
  peer.ask("set count 0 0 1\r\n0\r\nset swap 0 0 1\r\n0\r\n");
  const reports = Array.from({ length: threads }, (_, index) =>
    startWorker({
      shared: side.shared,
      settings: side.thread.settings,
      threadIndex: index + 1,
      seed: seed + index,
      rounds: ROUNDS,
    }));
  let running = true;
  let moves = 0;
  const all = Promise.all(reports).finally(() => running = false);
  while (running) {
    side.advanceNow(1);
    for (const target of TARGETS) {
      const reply = peer.ask(`slabs reassign -1 ${target}\r\n`);
      assertMatch(reply, MOVE_REPLY);
      if (reply.startsWith("OK")) moves++;
    }
    const pause = new Promise((resolve) => setTimeout(resolve, 5));
    await Promise.race([all, pause]);
    await pause;
  }
  let swaps = 0;
  for (const { error, swaps: own } of await all) {
    assertEquals(error, undefined);
    swaps += own;
  }
  side.check();
  assertGreater(moves, 0);
  const count = `${threads * ROUNDS}`;
  assertStringIncludes(peer.ask("stats\r\n"), `STAT incr_hits ${count}\r\n`);
  assertEquals(peer.ask("get count\r\n"), `VALUE count 0 ${count.length}\r\n${count}\r\nEND\r\n`);
  assertEquals(
    peer.ask("get swap\r\n"),
    `VALUE swap 0 ${`${swaps}`.length}\r\n${swaps}\r\nEND\r\n`,
  );
}

for (const threads of [2, 4]) {
  Deno.test(`Mutex keeps the store whole under ${threads} threads`, async () => {
    await withSeed(drawSeed(), (seed) => stress(threads, ["-m", "64"], seed));
  });
}

for (const holders of [1, 3]) {
  Deno.test(`a thread that wants the mutex gets it after a few pieces of ${holders} threads' long work`, async () => {
    const { memory } = new TestStore();
    const words = new Int32Array(new SharedArrayBuffer(HOLDER.WORDS * 4));
    const ended = Array.from(
      { length: holders },
      () => startHolder({ memory: memory.shared, words }),
    );
    const mutex = new Mutex(memory);
    const waited: number[] = [];
    for (let round = 0; round < HAND_OVERS; round++) {
      const before = Atomics.load(words, HOLDER.TURNS);
      // A holder has the mutex now.
      while (Atomics.load(words, HOLDER.TURNS) === before);
      const asked = Atomics.load(words, HOLDER.TURNS);
      mutex.lock();
      waited.push(Atomics.load(words, HOLDER.TURNS) - asked);
      mutex.unlock();
    }
    Atomics.store(words, HOLDER.DONE, 1);
    await waitingFor("the holders' end", Promise.all(ended), Infinity);
    waited.sort((a, b) => a - b);
    assertLess(waited[HAND_OVERS / 2]!, TURNS_MAX, `${waited}`);
  });
}

function startHolder(order: HolderOrder): Promise<void> {
  const worker = new Worker(HOLDER_WORKER, { type: "module" });
  worker.postMessage(order);
  return new Promise((resolve, reject) => {
    worker.onmessage = () => resolve();
    worker.onerror = ({ message }) => reject(new Error(message));
  });
}

Deno.test("Mutex.lock() after unlock() does not wait", () => {
  const mutex = new Mutex(new ConversationSide().thread.memory);
  for (let count = 0; count < 3; count++) {
    mutex.lock();
    mutex.unlock();
  }
});

Deno.test("of 61 holds the last is measured, for all of them", () => {
  const { memory } = new TestStore();
  const mutex = new Mutex(memory);
  let nowMs = 0;
  mutex.nowMs = () => nowMs;
  const held = memory.threadStats[THREAD_STAT.mutex_held_us]!;
  for (let hold = 1; hold <= 2 * 61; hold++) {
    mutex.lock();
    nowMs += hold === 61 ? 2 : hold === 122 ? 3 : 50;
    mutex.unlock();
  }
  assertEquals(memory.threadStats[THREAD_STAT.mutex_held_us]! - held, 61 * 5000);
});
