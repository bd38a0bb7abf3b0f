import { createHash } from "node:crypto";
import type { CacheClient } from "./cache_client.ts";

/** MD5 sums of a cache; each gives 4 points on the ring, as in libketama. */
const SUMS_PER_CACHE = 40;
const NUMBERS_PER_SUM = 4;

interface Point {
  readonly hash: number;
  readonly cache: CacheClient;
}

/**
 * All caches that may hold values of the proxy's rows. Every write deletes its key in all of them; each key is read
 * through one, which ketama's ring of hashes names.
 */
export class Caches {
  readonly all: readonly CacheClient[];
  readonly #points: readonly Point[];

  constructor(caches: readonly CacheClient[]) {
    this.all = caches;
    this.#points = caches.flatMap(pointsOf).sort((a, b) => a.hash - b.hash);
  }

  /** Returns the cache that a key is read through, or null if there are no caches. */
  of(key: string): CacheClient | null {
    const points = this.#points;
    if (points.length === 0) return null;
    const hash = numberAt(createHash("md5").update(key, "latin1").digest(), 0);
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (points[middle]!.hash < hash) low = middle + 1;
      else high = middle;
    }
    return points[low === points.length ? 0 : low]!.cache;
  }

  /** Returns the cache with this name, or undefined if it is not in the list. */
  named(name: string): CacheClient | undefined {
    return this.all.find((cache) => cache.name === name);
  }

  close(): void {
    for (const cache of this.all) cache.close();
  }
}

function pointsOf(cache: CacheClient): Point[] {
  const points: Point[] = [];
  for (let sum = 0; sum < SUMS_PER_CACHE; sum++) {
    const digest = createHash("md5").update(`${cache.name}-${sum}`).digest();
    for (let number = 0; number < NUMBERS_PER_SUM; number++) {
      points.push({ hash: numberAt(digest, number), cache });
    }
  }
  return points;
}

/** Reads a little-endian 32-bit number from a sum. */
function numberAt(digest: Uint8Array, index: number): number {
  return new DataView(digest.buffer, digest.byteOffset).getUint32(4 * index, true);
}
