import { assertEquals } from "@std/assert";
import { PrefixExpulsion } from "../../../../lib/rows/follow/prefix_expulsion.ts";
import { everyKeyOf } from "../../../../lib/databases/views/key_range.ts";

/** Deletions and waits in their order. */
class World {
  readonly calls: string[] = [];
  /** Keys that the next deletions leave. */
  readonly left: string[][] = [];
  /** Results of the next waits for the log. */
  readonly waits: (boolean | Error)[] = [];
  readonly expulsion = new PrefixExpulsion(
    {
      expel: (keys) => {
        this.calls.push(`expel ${keys.join(" ")}`);
        const left = this.left.shift() ?? [];
        return Promise.resolve(left.length === 0 ? null : { reason: "away", left });
      },
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
      return Promise.resolve();
    },
  );
}

const A = everyKeyOf("a:");
const B = everyKeyOf("b:");

Deno.test("keys of new views are deleted at once, and again when the log has been applied", async () => {
  const world = new World();
  world.waits.push(false, new Error("the database is away"));
  await world.expulsion.expelReplaced(["a:", "b:"]);
  assertEquals(world.calls, [
    `expel ${A} ${B}`,
    ...["end", "wait 7", "sleep", "wait 7", "sleep", "wait 7"],
    `expel ${A} ${B}`,
  ]);
});

Deno.test("keys that a cache has not confirmed are deleted again, until the stop", async () => {
  const world = new World();
  world.left.push([B], [B]);
  await world.expulsion.expel(["a:", "b:"]);
  assertEquals(world.calls, [`expel ${A} ${B}`, "sleep", `expel ${B}`, "sleep", `expel ${B}`]);
  world.calls.length = 0;
  world.left.push([A]);
  world.expulsion.stop();
  await world.expulsion.expel(["a:"]);
  assertEquals(world.calls, [`expel ${A}`, "sleep"]);
});
