import { assertEquals } from "@std/assert";
import { LagGuard } from "../../../../lib/rows/follow/lag_guard.ts";

const LAG_MS_MAX = 1000;

/** A guard with a lag that is the test's. */
class Setting {
  readonly lag = { lagMs: 0 };
  readonly done: string[] = [];
  /** Level and message of each event. */
  readonly told: string[] = [];
  readonly #guard = new LagGuard(
    this.lag,
    LAG_MS_MAX,
    {
      suspend: (isSuspended) => this.done.push(`suspend ${isSuspended}`),
      dropRows: () => Promise.resolve(void this.done.push("drop rows")),
    },
    ({ event, level, message }) => {
      this.done.push(event);
      this.told.push(`${level} ${message}`);
    },
  );

  /** Returns what a look at a lag does. */
  watch(lagMs: number): string[] {
    this.lag.lagMs = lagMs;
    this.#guard.watch();
    return this.done.splice(0);
  }
}

Deno.test("a lag of --lag-max is none that is too long; a millisecond more is", () => {
  const setting = new Setting();
  assertEquals(setting.watch(LAG_MS_MAX), []);
  assertEquals(setting.watch(LAG_MS_MAX + 1), ["suspend true", "drop rows", "lag_quarantine_on"]);
  assertEquals(setting.watch(LAG_MS_MAX + 2), []);
  assertEquals(setting.watch(LAG_MS_MAX), ["suspend false", "lag_quarantine_off"]);
  assertEquals(setting.watch(0), []);
  assertEquals(setting.told, [
    "error changes of rows have not been applied for 1001 ms: no row is cached",
    "info changes of rows are applied again: rows are cached",
  ]);
});
