import { assert, assertEquals, assertLess } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { HotKeys, KeyUse, SAMPLE_EVERY } from "../../../store/memory/hot_keys.ts";
import { randomFrom } from "../../support/random.ts";

const encoder = new TextEncoder();
const input = new ByteRegion(new ArrayBuffer(256));

function keyOf(text: string): { input: ByteRegion; keyOffset: number; keyLength: number } {
  const bytes = encoder.encode(text);
  input.bytes.set(bytes, 3);
  return { input, keyOffset: 3, keyLength: bytes.length };
}

function sample(keys: HotKeys, key: string, use: KeyUse, times = 1): void {
  for (let count = 0; count < times; count++) keys.sample(keyOf(key), use);
}

Deno.test("a thread's samples are counted by key and use, and seen by every thread", () => {
  const shared = HotKeys.createShared(2);
  const [first, second] = [new HotKeys(shared, 0), new HotKeys(shared, 1)];
  sample(first, "a", KeyUse.HIT, 5);
  sample(first, "b", KeyUse.MISS, 2);
  sample(second, "a", KeyUse.WRITE, 3);
  sample(second, "k".repeat(250), KeyUse.HIT);
  for (const keys of [first, second]) {
    assertEquals(keys.read(), {
      samples: 11,
      keys: [
        { key: "a", count: 8, error: 0, hits: 5, misses: 0, writes: 3 },
        { key: "b", count: 2, error: 0, hits: 0, misses: 2, writes: 0 },
        { key: "k".repeat(250), count: 1, error: 0, hits: 1, misses: 0, writes: 0 },
      ],
    });
  }
});

Deno.test("one request of SAMPLE_EVERY is sampled, and no stride of requests is missed", () => {
  const keys = new HotKeys(HotKeys.createShared(1), 0);
  const rounds = 2000;
  for (let request = 0; request < rounds * SAMPLE_EVERY; request++) {
    keys.note(keyOf(request % SAMPLE_EVERY < SAMPLE_EVERY / 2 ? "first" : "second"), KeyUse.HIT);
  }
  const { samples, keys: found } = keys.read();
  assertLess(Math.abs(samples - rounds), rounds / 20);
  assertEquals(found.length, 2);
  assertLess(found[0]!.count / samples, 0.6);
});

Deno.test("a key of more than a hundredth of the requests is listed among many others", () => {
  const keys = new HotKeys(HotKeys.createShared(1), 0);
  const random = randomFrom(7);
  for (let count = 0; count < 6000; count++) {
    const name = random() < 0.05 ? "hot" : `cold${Math.floor(random() * 1e6)}`;
    sample(keys, name, KeyUse.HIT);
  }
  const [hottest] = keys.read().keys;
  assertEquals(hottest!.key, "hot");
  assert(hottest!.count - hottest!.error <= 6000 * 0.06);
});

Deno.test("counts halve, so that the list follows a change of load", () => {
  const keys = new HotKeys(HotKeys.createShared(1), 0);
  sample(keys, "old", KeyUse.HIT, 8000);
  sample(keys, "new", KeyUse.HIT, 8000);
  sample(keys, "new", KeyUse.HIT, 8000);
  const { samples, keys: found } = keys.read();
  assertEquals(found[0]!.key, "new");
  assertEquals(samples, found.reduce((sum, { count }) => sum + count, 0));
  assertLess(found[1]!.count, 3000);
  assertEquals(found.map(({ hits }) => hits), found.map(({ count }) => count));
});

Deno.test("after a reset the list is empty, and counts anew", () => {
  const shared = HotKeys.createShared(2);
  const [first, second] = [new HotKeys(shared, 0), new HotKeys(shared, 1)];
  sample(first, "a", KeyUse.HIT, 5);
  second.reset();
  assertEquals(second.read(), { samples: 0, keys: [] });
  sample(first, "b", KeyUse.HIT);
  assertEquals(second.read().keys.map(({ key, count }) => [key, count]), [["b", 1]]);
});
