import { createHash } from "node:crypto";
import type { Weighted } from "../flows/cache_list.ts";

/** MD5 sums of a cache of average weight; each gives 4 points on the ring, as in libketama. */
const SUMS_PER_CACHE = 40;
const NUMBERS_PER_SUM = 4;
const DEFAULT_PORT = "11211";
/** Keeps a product that is whole from being rounded down, as in libmemcached. */
const ROUNDING = 1e-10;

interface Point<Cache> {
  readonly hash: number;
  readonly cache: Cache;
}

/** ketama's ring of hashes: gives each key one cache, and moves few keys when caches are added or removed. */
export class KetamaRing<Cache> {
  readonly #points: readonly Point<Cache>[];

  constructor(caches: readonly Weighted<Cache>[]) {
    const total = caches.reduce((sum, { weight }) => sum + weight, 0);
    this.#points = caches
      .flatMap((each) => pointsOf(each, each.weight / total * caches.length))
      .sort((a, b) => a.hash - b.hash);
  }

  /** Returns the cache of a key, or undefined if there are no caches. */
  of(key: string): Cache | undefined {
    const points = this.#points;
    const hash = numberAt(createHash("md5").update(key, "latin1").digest(), 0);
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (points[middle]!.hash < hash) low = middle + 1;
      else high = middle;
    }
    return points[low === points.length ? 0 : low]?.cache;
  }
}

/** @param share The cache's weight, divided by the average weight. */
function pointsOf<Cache>({ name, cache }: Weighted<Cache>, share: number): Point<Cache>[] {
  const points: Point<Cache>[] = [];
  const server = serverName(name);
  const sums = Math.floor(share * SUMS_PER_CACHE + ROUNDING);
  for (let sum = 0; sum < sums; sum++) {
    const digest = createHash("md5").update(`${server}-${sum}`).digest();
    for (let number = 0; number < NUMBERS_PER_SUM; number++) {
      points.push({ hash: numberAt(digest, number), cache });
    }
  }
  return points;
}

/** Returns the name that libmemcached hashes: without its default port, and without the brackets of IPv6. */
function serverName(name: string): string {
  const [, hostname, port] = /^\[?(.*?)\]?:(\d+)$/.exec(name)!;
  return port === DEFAULT_PORT ? hostname! : `${hostname}:${port}`;
}

/** Reads a little-endian 32-bit number from a sum. */
function numberAt(digest: Uint8Array, index: number): number {
  return new DataView(digest.buffer, digest.byteOffset).getUint32(4 * index, true);
}
