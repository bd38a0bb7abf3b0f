import { assertEquals } from "@std/assert";
import type { ReplyBuffer } from "../../protocol/reply/reply_buffer.ts";
import { StoreHold } from "../../protocol/store_hold.ts";
import type { WorkBudget } from "../../protocol/work_budget.ts";
import type { Cache } from "../../store/cache.ts";

/** A hold whose store notes what becomes of the mutex. */
class NotedHold extends StoreHold {
  readonly calls: string[] = [];
  readonly cache = this.#noted("enter", "leave", "yieldMutex", "applyFullHits") as unknown as Cache;
  readonly reply = this.#noted("beginMutexHold") as unknown as ReplyBuffer;
  readonly work = this.#noted("beginHold") as unknown as WorkBudget;

  constructor(readonly mayReadOptimistically: boolean) {
    super();
  }

  /** The calls since the last time. */
  take(): string[] {
    return this.calls.splice(0);
  }

  #noted(...methods: string[]): Record<string, () => void> {
    return Object.fromEntries(methods.map((name) => [name, () => void this.calls.push(name)]));
  }
}

const BEGUN = ["beginHold", "beginMutexHold"];

Deno.test("StoreHold: a batch that has the mutex yields it, one that has not applies its hits", () => {
  const hold = new NotedHold(true);
  hold.beginBatch();
  assertEquals(hold.take(), BEGUN);
  hold.yieldMutex();
  assertEquals(hold.take(), ["applyFullHits", ...BEGUN]);
  hold.hold();
  assertEquals(hold.take(), ["enter", ...BEGUN]);
  hold.hold();
  hold.yieldMutex();
  assertEquals(hold.take(), ["yieldMutex", ...BEGUN]);
});

Deno.test("StoreHold: the mutex is released before a read that may go without it, and at the end", () => {
  for (const mayRead of [true, false]) {
    const hold = new NotedHold(mayRead);
    hold.hold();
    hold.take();
    hold.releaseForReads();
    assertEquals(hold.take(), mayRead ? ["leave"] : []);
    hold.endBatch();
    assertEquals(hold.take(), [mayRead ? "applyFullHits" : "leave"]);
    assertEquals(hold.isHolding, false);
  }
});
