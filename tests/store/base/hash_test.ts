import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { hashKey } from "../../../store/base/hash.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { NO_ITEM, WORD } from "../../../store/memory/item.ts";
import { Outcome } from "../../../store/outcome.ts";
import { collidingKeys } from "../../support/colliding_keys.ts";
import { randomFrom } from "../../support/random.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { TestStore } from "../../support/store.ts";

const region = new ByteRegion(new ArrayBuffer(1024));
const KEY_SEED = Int32Array.of(0x03020100, 0x07060504);

function hashOf(key: string, offset = 0, seed = KEY_SEED): number {
  region.bytes.set(bytesOf(key), offset);
  return hashKey(region, offset, key.length, seed) >>> 0;
}

/** HalfSipHash with 32 bits of output, from its description, on unbounded integers. */
function halfSipHash(message: Uint8Array, seed: Int32Array, rounds: number, last: number): number {
  const mask = 0xffffffffn;
  const rotated = (word: bigint, by: bigint): bigint =>
    ((word << by) | (word >> (32n - by))) & mask;
  const low = BigInt(seed[0]! >>> 0);
  const high = BigInt(seed[1]! >>> 0);
  const v = [low, high, low ^ 0x6c796765n, high ^ 0x74656462n];
  const add = (to: number, from: number, by: bigint, up: bigint): void => {
    v[to] = (v[to]! + v[from]!) & mask;
    v[from] = rotated(v[from]!, by) ^ v[to]!;
    v[to] = rotated(v[to]!, up);
  };
  const mix = (times: number): void => {
    for (let round = 0; round < times; round++) {
      add(0, 1, 5n, 16n);
      add(2, 3, 8n, 0n);
      add(0, 3, 7n, 0n);
      add(2, 1, 13n, 16n);
    }
  };
  const padded = new Uint8Array((message.length & ~3) + 4);
  padded.set(message);
  padded[padded.length - 1] = message.length;
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += 4) {
    const word = BigInt(view.getUint32(at, true));
    v[3]! ^= word;
    mix(rounds);
    v[0]! ^= word;
  }
  v[2]! ^= 0xffn;
  mix(last);
  return Number(v[1]! ^ v[3]!);
}

Deno.test("hashKey() is HalfSipHash-1-3 of the key, wherever it stands", () => {
  // The first vectors of the reference implementation, of HalfSipHash-2-4: the key is 0..7, the message 0..n-1.
  const vectors = [0x5b9f35a9, 0xb85a4727, 0x03a662fa, 0x04e7fe8a, 0x89466e2a];
  vectors.forEach((expected, length) => {
    const message = Uint8Array.from({ length }, (_, index) => index);
    assertEquals(halfSipHash(message, KEY_SEED, 2, 4), expected);
  });
  const random = randomFrom(1);
  for (let length = 1; length <= 250; length++) {
    const seed = Int32Array.of(random() * 2 ** 32, random() * 2 ** 32);
    const message = Uint8Array.from({ length }, () => random() * 256);
    const offset = length % 9;
    region.bytes.set(message, offset);
    assertEquals(hashKey(region, offset, length, seed) >>> 0, halfSipHash(message, seed, 1, 3));
  }
});

Deno.test("hashKey() depends on both words of the seed and on every byte", () => {
  const key = "k".repeat(250);
  assertNotEquals(hashOf(key), hashOf(key, 0, Int32Array.of(KEY_SEED[0]!, 0)));
  assertNotEquals(hashOf(key), hashOf(key, 0, Int32Array.of(0, KEY_SEED[1]!)));
  for (let at = 0; at < key.length; at++) {
    assertNotEquals(hashOf(key), hashOf(`${key.slice(0, at)}j${key.slice(at + 1)}`));
  }
});

Deno.test("hashKey() changes every bit of the hash half of the time, whichever bit of the key changes", () => {
  const random = randomFrom(2);
  const tries = 2000;
  for (const length of [4, 7, 16]) {
    const flips = new Uint32Array(8 * length * 32);
    for (let attempt = 0; attempt < tries; attempt++) {
      for (let at = 0; at < length; at++) region.bytes[at] = random() * 256;
      const hash = hashKey(region, 0, length, KEY_SEED);
      for (let bit = 0; bit < 8 * length; bit++) {
        region.bytes[bit >>> 3]! ^= 1 << (bit & 7);
        const changed = hash ^ hashKey(region, 0, length, KEY_SEED);
        for (let out = 0; out < 32; out++) flips[32 * bit + out]! += (changed >>> out) & 1;
        region.bytes[bit >>> 3]! ^= 1 << (bit & 7);
      }
    }
    // Six standard deviations on either side: √(tries / 4) is 22.
    assert(Math.min(...flips) > tries / 2 - 140, `length ${length}: ${Math.min(...flips)}`);
    assert(Math.max(...flips) < tries / 2 + 140, `length ${length}: ${Math.max(...flips)}`);
  }
});

Deno.test("hashKey() spreads numbered keys evenly", () => {
  const buckets = new Uint32Array(1024);
  const keys = 100 * buckets.length;
  for (let number = 0; number < keys; number++) buckets[hashOf(`key:${number}`) & 1023]! += 1;
  assert(Math.max(...buckets) < 160 && Math.min(...buckets) > 50);
});

Deno.test("keys that collide under every seed of a mixing hash are spread like others", () => {
  const store = new TestStore();
  const { index, items } = store.cache.links;
  const keys = collidingKeys(10_000);
  for (const key of keys) {
    store.input.bytes.set(key);
    Object.assign(store.operation, { keyOffset: 0, keyLength: key.length, valueLength: 0 });
    assertEquals(store.cache.store(store.operation), Outcome.STORED);
  }
  assertEquals(store.memory.control[CONTROL.ITEM_COUNT], keys.length);
  let longest = 0;
  for (let bucket = 0; bucket < store.memory.control[CONTROL.HASH_BUCKETS]!; bucket++) {
    let steps = 0;
    for (let item = index.head(bucket); item !== NO_ITEM; item = items.word(item, WORD.HASH_NEXT)) {
      steps++;
    }
    longest = Math.max(longest, steps);
  }
  assert(longest < 10, `${longest} items are looked at before the last one is found`);
});
