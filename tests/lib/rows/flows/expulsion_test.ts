import { assertEquals } from "@std/assert";
import type { CacheList } from "../../../../lib/rows/flows/cache_list.ts";
import { expelKeys } from "../../../../lib/rows/flows/expulsion.ts";
import { CacheError } from "../../../../lib/rows/flows/steps.ts";
import { everyKeyOf } from "../../../../lib/rows/key_range.ts";

Deno.test("prefixes and keys that a listed cache has not deleted are left", () => {
  const cache = "127.0.0.1:1";
  const caches = { all: [cache], members: [{ cache }] } as unknown as CacheList<string>;
  const prefix = everyKeyOf("view:");
  const flow = expelKeys(caches, [prefix, "one", "two"]);
  const asked: string[] = [];
  let yielded = flow.next();
  while (!yielded.done) {
    const { kind } = yielded.value;
    asked.push(kind);
    yielded = kind === "quarantine"
      ? flow.throw(new CacheError("away"))
      : flow.next(kind === "invalidateListed" ? [null, "away"] : undefined);
  }
  assertEquals(asked, ["expelPrefixesHere", "quarantine", "expelHere", "invalidateListed"]);
  assertEquals(yielded.value, { reason: "away", left: [prefix, "two"] });
});
