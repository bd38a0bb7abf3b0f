import { Client, type Dialogue } from "../generator.ts";
import type { Random } from "../rows.ts";

const KEY_COUNT = 400_000;
/** Requests of one size of values. */
const REQUEST_COUNT = 100_000;
/** The shortest and the longest value; those of the next size are twice as long, so that pages move. */
const VALUE_BYTES = [100, 200] as const;
const SIZES = 3;
const EXPTIME_SEC_MAX = 10;
const LF = 0x0a;
const UPPER_V = 0x56;
const UPPER_Z = 0x5a;

class MixClient extends Client {
  /** First byte of the line being received; 0: no byte of it has arrived. */
  lineStart = 0;
}

/** 80 % get, 20 % set, every second of them with an expiry time, with values that change their size. */
export class Mix implements Dialogue<MixClient> {
  readonly #requests: readonly Uint8Array[];
  #next = 0;

  constructor(random: Random) {
    this.#requests = Array.from({ length: SIZES }, (_, index) => mix(random, 2 ** index)).flat();
  }

  connect(fd: number, index: number): MixClient {
    return new MixClient(fd, index);
  }

  next(): Uint8Array {
    return this.#requests[this.#next++ % this.#requests.length]!;
  }

  /** Counts the lines that end replies: those that begin with a capital letter, but VALUE. */
  take(client: MixClient, input: Uint8Array, length: number): number {
    let replies = 0;
    let { lineStart } = client;
    for (let at = 0; at < length; at++) {
      const byte = input[at]!;
      if (lineStart === 0) lineStart = byte;
      if (byte !== LF) continue;
      if (lineStart <= UPPER_Z && lineStart !== UPPER_V) replies++;
      lineStart = 0;
    }
    client.lineStart = lineStart;
    return replies;
  }
}

function mix(random: Random, scale: number): Uint8Array[] {
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
