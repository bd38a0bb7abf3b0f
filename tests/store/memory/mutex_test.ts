import { assertEquals } from "@std/assert";
import { Mutex } from "../../../store/memory/mutex.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { waitingFor } from "../../support/waiting.ts";
import type { StressOrder, StressReport } from "../../support/load/stress_worker.ts";

const ROUNDS = 4000;
const WORKER = new URL("../../support/load/stress_worker.ts", import.meta.url);

function startWorker(order: StressOrder): Promise<StressReport> {
  const worker = new Worker(WORKER, { type: "module" });
  worker.postMessage(order);
  const report = new Promise<StressReport>((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<StressReport>) => resolve(data);
    worker.onerror = ({ message }) => resolve({ swaps: 0, error: message });
  });
  return waitingFor("a worker's report", report);
}

/** Lets threads loose on one store, maintains it meanwhile as the main thread does, and checks what came of it. */
async function stress(threads: number, options: readonly string[], seed: number): Promise<void> {
  const side = new ConversationSide(options);
  const peer = side.connect();
  peer.ask("set count 0 0 1\r\n0\r\nset swap 0 0 1\r\n0\r\n");
  const reports = Array.from({ length: threads }, (_, index) =>
    startWorker({
      shared: side.shared,
      settings: side.thread.settings,
      seed: seed + index,
      rounds: ROUNDS,
    }));
  let running = true;
  const all = Promise.all(reports).finally(() => running = false);
  while (running) {
    side.advanceNow(1);
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
  const count = `${threads * ROUNDS}`;
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

Deno.test("Mutex.lock() after unlock() does not wait", () => {
  const mutex = new Mutex(new ConversationSide().thread.memory);
  for (let count = 0; count < 3; count++) {
    mutex.lock();
    mutex.unlock();
  }
});
