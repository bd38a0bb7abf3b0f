import { assertEquals } from "@std/assert";
import { PrefixExpulsion } from "../../../../lib/rows/follow/prefix_expulsion.ts";
import { shownKeys } from "../../../support/rows/key_sets.ts";

/** Deletions and waits in their order. */
class World {
  readonly calls: string[] = [];
  onSleep: () => void = () => {};
  onExpel: () => Promise<void> = () => Promise.resolve();
  /** Results of the next waits for the log. */
  readonly waits: (boolean | Error)[] = [];
  readonly expulsion = new PrefixExpulsion(
    (rows) => {
      this.calls.push(`expel ${shownKeys(rows).join(" ")}`);
      return this.onExpel();
    },
    {
      endOfLog: () => {
        this.calls.push("end");
        return Promise.resolve(7n);
      },
      follower: {
        wait: (end) => {
          this.calls.push(`wait ${end}`);
          const result = this.waits.shift() ?? true;
          return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
        },
      },
    },
    () => {
      this.calls.push("sleep");
      this.onSleep();
      return Promise.resolve();
    },
  );
}

Deno.test("keys of new views are deleted at once, and again when the log has been applied", async () => {
  const world = new World();
  world.waits.push(false, new Error("the database is away"));
  await world.expulsion.expelReplaced(["a:", "b:"]);
  assertEquals(world.calls, [
    "expel a:* b:*",
    ...["end", "wait 7", "sleep", "wait 7", "sleep", "wait 7"],
    "expel a:* b:*",
  ]);
});

Deno.test("the wait for the log ends with the origin", async () => {
  const world = new World();
  world.waits.push(new Error("the database is away"));
  world.onSleep = () => world.expulsion.stop();
  await world.expulsion.expelReplaced(["a:"]);
  assertEquals(world.calls, ["expel a:*", "end", "wait 7", "sleep", "expel a:*"]);
});

Deno.test("`follow wait now` waits for the keys of replaced views, too", async () => {
  const world = new World();
  assertEquals(await world.expulsion.waitForNow(1000), true);
  assertEquals(world.calls, ["end", "wait 7"]);
  let next = (): void => {};
  const blocked = new Promise<void>((resolve) => next = resolve);
  world.onExpel = () => blocked;
  const expelled = world.expulsion.expelReplaced(["a:"]);
  assertEquals(await world.expulsion.waitForNow(0), false);
  assertEquals(await world.expulsion.waitForNow(60_000, AbortSignal.abort()), false);
  let isOver = false;
  const waited = world.expulsion.waitForNow(60_000).then((is) => {
    isOver = true;
    return is;
  });
  await Promise.resolve();
  assertEquals(isOver, false);
  next();
  assertEquals(await waited, true);
  await expelled;
  world.waits.push(false);
  assertEquals(await world.expulsion.waitForNow(1000), false);
});
