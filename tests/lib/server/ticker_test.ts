import { assert, assertEquals } from "@std/assert";
import { msToNextTick, Ticker } from "../../../lib/server/ticker.ts";
import { clockSec } from "../../../store/clock.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { testTransports as test } from "../../support/servers/server_process.ts";

Deno.test("the clock ticks on the second, however late or early its timers are", () => {
  assertEquals(msToNextTick(0), 100);
  assertEquals(msToNextTick(40), 60);
  assertEquals(msToNextTick(999.2), 1);
  assertEquals(msToNextTick(1012.5), 88);
  for (let elapsedMs = 0; elapsedMs < 3000; elapsedMs += 0.37) {
    const tickMs = elapsedMs + msToNextTick(elapsedMs);
    assert(tickMs % 100 <= 1.001, `${elapsedMs}: ${tickMs}`);
    assertEquals(Math.floor(tickMs / 100), Math.floor(elapsedMs / 100) + 1);
  }
});

/** Timers that run when the test says so, and a clock that stands still meanwhile. */
class FakeTimers implements Disposable {
  nowMs = 10_000;
  /** Clock reads move the clock by so much. */
  stepMs = 0;
  readonly timers = new Map<number, { readonly atMs: number; readonly act: () => void }>();
  readonly #real = {
    set: globalThis.setTimeout,
    clear: globalThis.clearTimeout,
    now: performance.now,
  };
  #last = 0;

  constructor() {
    const set = (act: () => void, ms = 0): number => {
      this.timers.set(++this.#last, { atMs: this.nowMs + ms, act });
      return this.#last;
    };
    globalThis.setTimeout = set as unknown as typeof setTimeout;
    globalThis.clearTimeout = ((id: number) => this.timers.delete(id)) as typeof clearTimeout;
    performance.now = () => this.nowMs += this.stepMs;
  }

  /** Runs the timer that is due first. */
  runNext(): void {
    const [[id, { atMs, act }]] = [...this.timers].toSorted((a, b) => a[1].atMs - b[1].atMs) as [
      [number, { atMs: number; act: () => void }],
    ];
    this.timers.delete(id);
    this.nowMs = Math.max(this.nowMs, atMs);
    act();
  }

  /** How long each timer has to wait. */
  get waits(): number[] {
    return [...this.timers.values()].map(({ atMs }) => atMs - this.nowMs).toSorted((a, b) => a - b);
  }

  [Symbol.dispose](): void {
    globalThis.setTimeout = this.#real.set;
    globalThis.clearTimeout = this.#real.clear;
    performance.now = this.#real.now;
  }
}

/** A store whose maintenance the test makes up. @param slices How many slices of maintenance are due. */
function ticking(
  slices: number,
): { side: ConversationSide; ticker: Ticker; held: boolean[]; left: () => number } {
  const side = new ConversationSide();
  const { cache } = side.thread;
  const held: boolean[] = [];
  let isHeld = false;
  let left = slices;
  const fake = Object.create(cache, {
    enter: { value: () => void (isHeld = true) },
    leave: { value: () => void (isHeld = false) },
    maintain: {
      value: () => {
        held.push(isHeld);
        return --left > 0;
      },
    },
  }) as typeof cache;
  return { side, ticker: new Ticker(fake, 4750), held, left: () => left };
}

Deno.test("each tick writes the clock, and runs maintenance under the mutex until none is due", () => {
  using timers = new FakeTimers();
  const { side, ticker, held } = ticking(3);
  ticker.start();
  assertEquals(timers.waits, [50]);
  const { memory } = side.thread;
  const startSec = clockSec(memory);
  timers.runNext();
  assertEquals(held, [true, true, true]);
  // The next tick, and pages to prefault perhaps.
  assertEquals(Math.max(...timers.waits), 100);
  timers.nowMs += 5000;
  // Pages may be prefaulted before the tick.
  for (let due = timers.timers.size; due > 0; due--) timers.runNext();
  assertEquals(clockSec(memory), startSec + 5);
  ticker.stop();
  assertEquals(timers.waits, []);
});

Deno.test("maintenance pauses after a burst, goes on before the next tick, and is not doubled by it", () => {
  using timers = new FakeTimers();
  const { ticker, held } = ticking(1000);
  ticker.start();
  timers.stepMs = 1;
  timers.runNext();
  timers.stepMs = 0;
  const first = held.length;
  // 5 ms, with a read of the clock behind each slice.
  assertEquals(first, 5);
  assertEquals(timers.waits.includes(5), true);
  const count = timers.timers.size;
  // A tick while maintenance pauses.
  const [tick] = [...timers.timers].toSorted((a, b) => b[1].atMs - a[1].atMs);
  timers.timers.delete(tick![0]);
  tick![1].act();
  assertEquals(held.length, first);
  assertEquals(timers.timers.size, count);
  ticker.stop();
  assertEquals(timers.waits, []);
});

test("maintenance ends the wait for a lock when its time is over", async (start) => {
  await using server = await start();
  using holder = await server.connect();
  await holder.ask("set k 0 0 1\r\nv\r\nlock k\r\n", "STORED\r\nOK\r\n");
  using waiting = await server.connect();
  await waiting.ask("lock k 50\r\n", "LOCKED\r\n");
  await server.stop();
});
