import { assert, assertEquals, assertGreater } from "@std/assert";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import {
  type Grant,
  LOCK_KEYS,
  type LockOrder,
  type LockReport,
  LOCKS_MAX,
  LOCKS_PER_CONNECTION_MAX,
} from "../../support/load/lock_worker.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { waitingFor } from "../../support/waiting.ts";
import { roundsOf } from "../../support/rounds.ts";

const ROUNDS = roundsOf(1500);
const WORKER = new URL("../../support/load/lock_worker.ts", import.meta.url);

function startWorker(order: LockOrder): Promise<LockReport> {
  const worker = new Worker(WORKER, { type: "module" });
  worker.postMessage(order);
  const report = new Promise<LockReport>((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<LockReport>) => resolve(data);
    worker.onerror = ({ message }) => resolve({ grants: [], error: message });
  });
  return waitingFor("a worker's report", report, Infinity);
}

/** Of those who asked for a key, who asked sooner got it sooner. */
function checkOrder(grants: readonly Grant[]): void {
  for (let key = 0; key < LOCK_KEYS; key++) {
    const ofKey = grants.filter((grant) => grant.key === key);
    ofKey.sort((a, b) => a.ticket - b.ticket);
    for (const [index, { fence }] of ofKey.entries()) {
      const before = ofKey[index - 1]?.fence ?? 0;
      assertGreater(fence, before, `key${key} goes to those who wait in the order they came`);
    }
  }
}

async function simulate(threads: number, seed: number): Promise<void> {
  const limits = [`--lock-limit=${LOCKS_MAX}`, `--lock-limit-per-conn=${LOCKS_PER_CONNECTION_MAX}`];
  const side = new ConversationSide(["-t", String(threads + 1), "--lock-waiters=4", ...limits]);
  const peer = side.connect();
  for (let key = 0; key < LOCK_KEYS; key++) {
    peer.ask(`set key${key} 0 0 1\r\n0\r\nset ticket${key} 0 0 1\r\n0\r\n`);
  }
  const holders = new SharedArrayBuffer(LOCK_KEYS * 4);
  const fences = new SharedArrayBuffer(LOCK_KEYS * 8);
  const { shared, thread: { settings, cache } } = side;
  const reports = Array.from({ length: threads }, (_, index) => {
    const threadIndex = index + 1;
    const rounds = ROUNDS;
    return startWorker({
      shared,
      settings,
      threadIndex,
      seed: seed + index,
      rounds,
      holders,
      fences,
    });
  });
  let running = true;
  const all = Promise.all(reports).finally(() => running = false);
  while (running) {
    side.advanceNow(1);
    cache.enter();
    side.check();
    cache.leave();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const grants: Grant[] = [];
  for (const report of await all) {
    assertEquals(report.error, undefined);
    grants.push(...report.grants);
  }
  assert(grants.some(({ waited }) => waited), "some had to wait");
  checkOrder(grants);
  side.check();
  assertEquals(cache.locks.count, 0, "nothing is locked by those who are gone");
  assertEquals(cache.locks.waiters.count, 0);
  for (let key = 0; key < LOCK_KEYS; key++) peer.ask(`add key${key} 0 0 1\r\n0\r\n`);
  for (let key = 0; key < LOCK_KEYS; key++) {
    const mine = key < LOCKS_PER_CONNECTION_MAX;
    const reply = mine ? "OK\r\n" : "SERVER_ERROR too many locks\r\n";
    assertEquals(peer.ask(`lock key${key}\r\n`), reply);
  }
}

for (const threads of [2, 4]) {
  Deno.test(`locks hold under ${threads} threads: one holder, no other's write, first come first served`, async () => {
    await withSeed(drawSeed(), (seed) => simulate(threads, seed));
  });
}
