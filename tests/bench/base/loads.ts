import { bytesOf, textOf } from "../../support/sessions/side.ts";
import { type Batch, Batches, Client, type Dialogue } from "./generator.ts";
import { eachKey, keyText, type Random, rowOf, seededRandom } from "./rows.ts";

/** A load, as a thread is told of it. */
export type LoadName =
  /** A row by its name, or the load that it is compared with. */
  | { readonly row: string; readonly against?: boolean }
  | { readonly batches: readonly Batch[] }
  /** Gets, or sets, of keys with a number below `keys`, each in its turn. */
  | { readonly each: "get" | "set"; readonly keys: number }
  | "mix"
  | "tokens";

export function dialogueOf(load: LoadName, seed: number): Dialogue {
  const random = seededRandom(seed);
  if (load === "mix") return new Mix(random);
  if (load === "tokens") return new Tokens();
  if ("batches" in load) return new Batches(load.batches);
  if ("each" in load) return new Batches(eachKey(load.each, load.keys), true);
  const row = rowOf(load.row);
  return new Batches(load.against ? row.against!(random) : row.batches(random));
}

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
  const [shortest, longest] = VALUE_BYTES;
  return Array.from({ length: REQUEST_COUNT }, () => {
    const key = keyText(random(KEY_COUNT));
    if (random(5) > 0) return bytesOf(`get ${key}\r\n`);
    const length = scale * (shortest + random(longest - shortest));
    const exptime = random(2) * (1 + random(EXPTIME_SEC_MAX));
    return bytesOf(`set ${key} 0 ${exptime} ${length}\r\n${"v".repeat(length)}\r\n`);
  });
}

class TokenClient extends Client {
  readonly key = `token:${this.fd}`;
  isReleasing = false;
  request = bytesOf(`token get ${this.key}\r\n`);
}

/** Takes and releases an update token for each connection, again and again. */
class Tokens implements Dialogue<TokenClient> {
  connect(fd: number, index: number): TokenClient {
    return new TokenClient(fd, index);
  }

  next(client: TokenClient): Uint8Array {
    return client.request;
  }

  /** Expects `TOKEN <id>` or `OK` in one piece. */
  take(client: TokenClient, input: Uint8Array, length: number): number {
    const reply = textOf(input.subarray(0, length));
    const found = /^(?:OK|TOKEN (\d+))\r\n$/.exec(reply);
    const id = found?.[1];
    if (found === null || client.isReleasing !== (id === undefined)) {
      throw new Error(`unexpected ${reply}`);
    }
    client.isReleasing = !client.isReleasing;
    const request = client.isReleasing ? `release ${client.key} ${id}` : `get ${client.key}`;
    client.request = bytesOf(`token ${request}\r\n`);
    return 1;
  }
}

/** Bytes, and digits at the end, of `keyText`. */
export const KEY_BYTES = keyText(0).length;
const DIGITS = 8;

/** A batch of sets whose keys carry numbers: `key:00000042`. */
export class NumberedSets {
  readonly batch: Batch;
  readonly #requestBytes: number;

  constructor(count: number, valueBytes: number) {
    const request = `set ${keyText(0)} 0 0 ${valueBytes}\r\n${"v".repeat(valueBytes)}\r\n`;
    const bytes = bytesOf(request.repeat(count));
    this.batch = { bytes, reply: "STORED\r\n".repeat(count), count };
    this.#requestBytes = request.length;
  }

  /** Returns the batch, with keys from the number `first` on. */
  from(first: number): Batch {
    const { bytes, count } = this.batch;
    for (let index = 0; index < count; index++) {
      let rest = first + index;
      let at = index * this.#requestBytes + "set ".length + KEY_BYTES;
      for (let digit = 0; digit < DIGITS; digit++) {
        bytes[--at] = 48 + rest % 10;
        rest = Math.floor(rest / 10);
      }
    }
    return this.batch;
  }
}
