import type { Request } from "../open_generator.ts";
import { type Random, seededRandom } from "../rows.ts";

const KEY_COUNT = 400_000;
const REQUEST_COUNT = 200_000;
/** The shortest and the longest value of a round; the next round has values twice as long, so that pages move. */
const VALUE_BYTES = [100, 200] as const;
export const SIZES = 3;
const EXPTIME_SEC_MAX = 10;

/** Returns the requests of a client's rounds, which repeat after SIZES. */
export function mixesOf(seed: number): Request[][] {
  const random = seededRandom(seed);
  return Array.from({ length: SIZES }, (_, index) => mix(random, 2 ** index));
}

/** 80 % get, 20 % set, every second of them with an expiry time. */
function mix(random: Random, scale: number): Request[] {
  const encoder = new TextEncoder();
  const [shortest, longest] = VALUE_BYTES;
  return Array.from({ length: REQUEST_COUNT }, () => {
    const key = `key:${String(random(KEY_COUNT)).padStart(8, "0")}`;
    if (random(5) > 0) return encoder.encode(`get ${key}\r\n`);
    const length = scale * (shortest + random(longest - shortest));
    const exptime = random(2) * (1 + random(EXPTIME_SEC_MAX));
    return encoder.encode(`set ${key} 0 ${exptime} ${length}\r\n${"v".repeat(length)}\r\n`);
  });
}
