import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { hashKey } from "../../../store/base/hash.ts";
import { bytesOf } from "../../support/sessions/side.ts";

const region = new ByteRegion(new ArrayBuffer(1024));

function hashOf(key: string, offset = 0, seed = 0): number {
  region.bytes.set(bytesOf(key), offset);
  return hashKey(region, offset, key.length, seed);
}

Deno.test("hashKey() is murmur3 of the key, wherever it stands", () => {
  // Values of the reference implementation.
  assertEquals(hashOf("hello") >>> 0, 0x248bfa47);
  assertEquals(hashOf("hello", 7) >>> 0, 0x248bfa47);
  assertEquals(hashOf("hello, world", 0) >>> 0, 0x149bbb7f);
  assertEquals(hashOf("The quick brown fox jumps over the lazy dog", 3) >>> 0, 0x2e4ff723);
});

Deno.test("hashKey() depends on the seed and on every byte", () => {
  const key = "k".repeat(250);
  assertNotEquals(hashOf(key), hashOf(key, 0, 1));
  for (let at = 0; at < key.length; at++) {
    assertNotEquals(hashOf(key), hashOf(`${key.slice(0, at)}j${key.slice(at + 1)}`));
  }
});

Deno.test("hashKey() spreads numbered keys evenly", () => {
  const buckets = new Uint32Array(1024);
  const keys = 100 * buckets.length;
  for (let number = 0; number < keys; number++) buckets[hashOf(`key:${number}`) & 1023]! += 1;
  assert(Math.max(...buckets) < 160 && Math.min(...buckets) > 50);
});
