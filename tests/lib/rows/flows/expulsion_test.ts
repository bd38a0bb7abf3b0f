import { assertEquals } from "@std/assert";
import type { CacheList } from "../../../../lib/rows/flows/cache_list.ts";
import { expelKeys } from "../../../../lib/rows/flows/expulsion.ts";
import { CacheError } from "../../../../lib/rows/flows/steps.ts";
import { everyKeyOf } from "../../../../lib/databases/views/key_range.ts";

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

Deno.test("a listed cache deletes every key of a large change, however often it does not answer", () => {
  const cache = "127.0.0.1:1";
  const caches = { all: [cache], members: [{ cache }] } as unknown as CacheList<string>;
  const keys = Array.from({ length: 2500 }, (_, index) => `k${index}`);
  const deleted = new Set<string>();
  const asked = new Map<string, number>();
  /** Deletes a key at the second request, some at the first one. */
  const deleteOne = (key: string, index: number): string | null => {
    const requests = (asked.get(key) ?? 0) + 1;
    asked.set(key, requests);
    if (requests === 1 && index % 3 === 0) return "away";
    deleted.add(key);
    return null;
  };
  for (let left: readonly string[] = keys; left.length > 0;) {
    const flow = expelKeys(caches, left);
    let yielded = flow.next();
    while (!yielded.done) {
      const { value } = yielded;
      yielded = flow.next(
        value.kind === "invalidateListed" ? value.keys.map(deleteOne) : undefined,
      );
    }
    left = yielded.value?.left ?? [];
  }
  assertEquals(deleted, new Set(keys));
});
