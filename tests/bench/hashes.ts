import { ByteRegion } from "../../store/base/bytes.ts";
import { hashKey } from "../../store/base/hash.ts";

// The cost of hashing a key, by its length: `deno task bench feed hash`. Each hash waits for the one before,
// as in a lookup, where nothing can go on before the hash is known.

const LENGTHS = [4, 8, 12, 16, 20, 30, 40, 64, 100, 250];
const HASHES = 200_000;
const TRIES = 9;
const SEED = Int32Array.of(12345, 67890);

const region = new ByteRegion(new SharedArrayBuffer(64 * 1024));
region.bytes.forEach((_, at) => region.bytes[at] = 33 + (at * 7) % 90);

function nanoseconds(length: number): number {
  const startMs = performance.now();
  let hash = 0;
  for (let number = 0; number < HASHES; number++) {
    hash = hashKey(region, ((number * 37) & 0x7fff) + (hash & 1), length, SEED);
  }
  return (performance.now() - startMs) * 1e6 / HASHES;
}

export function measureHashes(): void {
  for (const length of LENGTHS) {
    let best = Infinity;
    for (let attempt = 0; attempt < TRIES; attempt++) best = Math.min(best, nanoseconds(length));
    // deno-lint-ignore no-console
    console.log(`${String(length).padStart(3)} bytes  ${best.toFixed(1).padStart(6)} ns`);
  }
}
