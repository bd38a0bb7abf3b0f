import { assertEquals } from "@std/assert";
import { LagGuard, type Suspender } from "../../../../lib/rows/follow/lag_guard.ts";

const LAG_MS_MAX = 1000;

/** A guard with a lag, a listed cache and a log that are the test's. */
class Setting {
  readonly lag = { lagMs: 0, hasCaughtUp: false };
  readonly done: string[] = [];
  /** Level and message of each event. */
  readonly told: string[] = [];
  isCacheAway = false;
  readonly #guard: LagGuard;

  constructor() {
    const suspender: Suspender = {
      suspend: (isSuspended) => this.done.push(`suspend ${isSuspended}`),
      dropRows: () => Promise.resolve(void this.done.push("drop rows")),
      caches: () => [{ name: "c1", quarantine: (on) => this.#quarantine(on) }],
      whileUnchanged: (act) => act(),
    };
    this.#guard = new LagGuard(
      this.lag,
      LAG_MS_MAX,
      suspender,
      ({ event, level, message }) => {
        this.done.push(event);
        this.told.push(`${level} ${message}`);
      },
    );
  }

  #quarantine(on: boolean): Promise<void> {
    if (this.isCacheAway) return Promise.reject(new Error("no answer"));
    this.done.push(`quarantine ${on}`);
    return Promise.resolve();
  }

  /** Returns what a look at a lag does. */
  async watch(lagMs: number, hasCaughtUp = lagMs === 0): Promise<string[]> {
    Object.assign(this.lag, { lagMs, hasCaughtUp });
    await this.#guard.watch();
    return this.done.splice(0);
  }
}

Deno.test("a lag of --lag-max is none that is too long; a millisecond more is", async () => {
  const setting = new Setting();
  assertEquals(await setting.watch(LAG_MS_MAX), []);
  assertEquals(await setting.watch(LAG_MS_MAX + 1), [
    ...["suspend true", "drop rows", "lag_quarantine_on", "quarantine true"],
  ]);
  assertEquals(await setting.watch(LAG_MS_MAX + 2), ["quarantine true"]);
  assertEquals(await setting.watch(0), [
    ...["suspend false", "lag_quarantine_off", "quarantine false"],
  ]);
  assertEquals(await setting.watch(0), []);
});

Deno.test("a quarantine of an earlier origin ends when the log has been caught up with, not before", async () => {
  const setting = new Setting();
  assertEquals(await setting.watch(1, false), []);
  assertEquals(await setting.watch(1, true), ["quarantine false"]);
});

Deno.test("a cache that does not confirm is asked again, and its failure is logged once", async () => {
  const setting = new Setting();
  setting.isCacheAway = true;
  const begun = await setting.watch(LAG_MS_MAX + 1);
  assertEquals(begun.at(-1), "lag_quarantine_failed");
  assertEquals(await setting.watch(LAG_MS_MAX + 2), []);
  setting.isCacheAway = false;
  assertEquals(await setting.watch(LAG_MS_MAX + 3), ["quarantine true"]);
  setting.isCacheAway = true;
  assertEquals((await setting.watch(0)).at(-1), "lag_quarantine_failed");
  setting.isCacheAway = false;
  assertEquals(await setting.watch(0), ["quarantine false"]);
});

Deno.test("the log tells how late changes are, which cache does not answer, and that rows are cached again", async () => {
  const setting = new Setting();
  await setting.watch(LAG_MS_MAX + 5);
  setting.isCacheAway = true;
  await setting.watch(LAG_MS_MAX + 6);
  await setting.watch(0);
  assertEquals(setting.told, [
    "error changes of rows have not been applied for 1005 ms: no row is cached",
    "error cannot begin the quarantine of a cache: no answer; retrying",
    "info changes of rows are applied again: rows are cached",
  ]);
});
