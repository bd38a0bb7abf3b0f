import { randomFrom } from "./random.ts";

const C1 = 0xcc9e2d51;
const C2 = 0x1b873593;

/** How murmur3 mixes a word before it meets the hash: the same under every seed. */
function unmix(mixed: number): number {
  let word = Math.imul(mixed, inverse(C2));
  word = (word >>> 15) | (word << 17);
  return Math.imul(word, inverse(C1));
}

/** The number that gives 1 when multiplied with an odd one, modulo 2^32 (Newton's iteration). */
function inverse(odd: number): number {
  let found = odd;
  for (let bits = 3; bits < 32; bits *= 2) found = Math.imul(found, 2 - Math.imul(odd, found));
  return found;
}

/**
 * Returns keys that collide in murmur3 whatever its seed is. A difference of 2^18 in a mixed word stands in the hash's
 * highest bit after the rotation, where the multiplication by 5 leaves it; one of 2^31 in the next mixed word takes it
 * away. So every block of two words has a twin, and n blocks make 2^n keys. No byte is a blank, LF or another control.
 */
export function collidingKeys(count: number): Uint8Array[] {
  const random = randomFrom(7);
  let keys: number[][] = [[]];
  while (keys.length < count) {
    const [first, firstTwin] = twins(2 ** 18, random);
    const [second, secondTwin] = twins(2 ** 31, random);
    keys = keys.flatMap((key) => [[...key, first, second], [...key, firstTwin, secondTwin]]);
  }
  return keys.slice(0, count).map(bytesOfWords);
}

/** Two words whose mixed words differ by `difference`. */
function twins(difference: number, random: () => number): [number, number] {
  for (;;) {
    const mixed = (random() * 2 ** 32) | 0;
    const one = unmix(mixed);
    const other = unmix(mixed ^ difference);
    if (bytesOfWords([one, other]).every((byte) => byte > 0x20)) return [one, other];
  }
}

function bytesOfWords(words: readonly number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(words).buffer);
}
