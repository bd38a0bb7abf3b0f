import { type Operation, requestOf } from "../support/models/model.ts";
import { OperationSource, TIMELESS } from "../support/models/operations.ts";
import type { Part } from "../support/sessions/transcript.ts";
import type { Difference } from "./differences.ts";

const NOREPLY_SHARE = 0.15;
const ODD_SHARE = 0.2;

const RANGES = {
  valueLengthMax: 200_000,
  coldKeys: 300,
  exptimes: TIMELESS,
  flushDelaysSec: [-1, 0],
  numberBits: [1, 4, 8, 31, 32, 33, 48],
};

const LONG_KEY = "k".repeat(251);

type Oddity = readonly [request: string, ...meets: Difference[]];

/** Wrong or unusual requests, with the differences they meet. */
const ODDITIES: readonly Oddity[] = [
  ["bogus\r\n"],
  ["GET hot0\r\n"],
  ["gett hot0\r\n"],
  ["set hot0 0 0\r\n", "word count"],
  ["get\r\n", "word count"],
  ["delete\r\n", "word count"],
  ["incr hot0\r\n", "word count"],
  ["touch hot0\r\n", "word count"],
  ["incr number0 1 2 3 4\r\n", "word count"],
  ["delete hot0 0\r\n"],
  ["delete hot0 5\r\n", "word count"],
  ["bogus noreply\r\n", "silent unknown"],
  ["\r\n", "short line"],
  ["a\r\n", "short line"],
  ["ab\n", "short line"],
  ["  \r\n"],
  ["    \r\n"],
  [" get hot0\r\n", "leading blank"],
  ["get  hot0   hot1 \r\n"],
  ["get hot0\n"],
  ["gets hot0 hot0 hot0\n"],
  ["gat 0 hot0\n"],
  ["gat x hot0\r\n"],
  ["gat +5 hot0\r\n", "C numbers"],
  ["touch hot0 x\r\n"],
  ["touch hot0 5x\r\n"],
  ["touch hot0 2147483648\r\n", "C numbers"],
  ["incr number0 x\r\n"],
  ["incr number0 -1\r\n"],
  ["incr number0 1.5\r\n"],
  ["incr number0 +1\r\n", "C numbers"],
  ["decr number0 18446744073709551616\r\n"],
  ["decr number0 18446744073709551615\r\n"],
  ["verbosity 0\r\n"],
  ["verbosity x\r\n"],
  ["flush_all x\r\n"],
  ["stats bogus\r\n"],
  [`get ${LONG_KEY}\r\n`, "long key in a get"],
  [`get hot0 ${LONG_KEY}\r\n`, "long key in a get"],
  [`delete ${LONG_KEY}\r\n`],
  [`incr ${LONG_KEY} 1\r\n`],
  [`touch ${LONG_KEY} 0\r\n`],
  [`set ${LONG_KEY} 0 0 1\r\na\r\n`, "refused block"],
  ["set hot0 x 0 1\r\na\r\n", "refused block"],
  ["set hot0 -1 0 1\r\na\r\n", "refused block"],
  ["set hot0 0 x 1\r\na\r\n", "refused block"],
  ["cas hot0 0 0 1 x\r\na\r\n", "refused block"],
  ["set hot0 0 0 x\r\n"],
  ["set hot0 0 0 -1\r\n"],
  ["set hot0 0 0 2147483647\r\n"],
  ["set hot0 0 0 1x\r\n", "C numbers"],
  ["set hot0 0 0 +1\r\n", "C numbers"],
  ["set hot0 4294967296 0 1\r\na\r\n"],
  ["set hot0 +7 0 1\r\na\r\n"],
  ["set hot0 007 0 1\r\na\r\n"],
  ["set hot0 0 4294967296 1\r\na\r\n"],
  ["set hot0 0 2147483648 1\r\na\r\n"],
  ["set hot0 0 +1000 1\r\na\r\n"],
  ["set  hot0   0 0  1 \r\na\r\n"],
  ["set hot0 0 0 1\na\r\n"],
  ["set hot0 0 0 0\r\n\r\n"],
  ["set hot0 0 0 3\r\nabcdefghijkl\r\n"],
  ["append hot0 0 0 3\r\nabcdefghijkl\r\n"],
  ["add new 0 0 3\r\nabc\nx\r\nbogus\r\n", "short line"],
  ["set h\0t 0 0 1\r\na\r\n", "NUL"],
  ["delete hot0 5 6 7\r\n", "word count"],
  ["delete hot0 noreply x\r\n", "word count"],
  ["incr number0 1 noreply x\r\n", "word count"],
  ["touch hot0 5 6\r\n"],
  ["touch hot0 -1 noreply x\r\n", "word count"],
  ["gat 5\r\n", "word count"],
  ["gats x hot0\r\n"],
  ["gats\r\n", "word count"],
  [`get${" absent".repeat(40)} hot0\r\n`],
  [`gets${" absent".repeat(700)} hot1\r\n`],
  [`set hot0 0 0 1${" x".repeat(30)}\r\na\r\n`, "word count"],
  ["set hot0 0 0 1 noreply x\r\na\r\n", "word count"],
  ["set hot0 0 0 1 x noreply\r\na\r\n", "word count"],
  ["set hot0 0 0 2147483646\r\n"],
  ["cas hot0 0 0 1\r\na\r\n", "word count"],
  ["cas hot0 0 0 1 -1\r\na\r\n", "refused block"],
  ["cas hot0 0 0 1 0\r\na\r\n"],
  ["cas hot0 0 0 1 18446744073709551616\r\na\r\n", "refused block"],
  ["decr number0 00000000000000000000001\r\n", "C numbers"],
  ["touch hot0 -\r\n", "numbers without digits"],
  ["set hot0 0 5\x005 1\r\na\r\n", "numbers without digits"],
  ["set hot0 0 \t 1\r\na\r\n", "numbers without digits"],
  ["set hot0 0\t \t5\r 1\r\na\r\n"],
  ["flush_all noreply\r\n"],
  ["flush_all 0 x\r\n"],
  ["verbosity\r\n", "word count"],
  ["verbosity 0 noreply\r\n"],
  ["shutdown\r\n", "shutdown refused"],
  ["cache_memlimit\r\n"],
  ["cache_memlimit 7\r\n"],
  ["cache_memlimit x\r\n"],
  ["slabs\r\n"],
  ["slabs bogus\r\n"],
  ["slabs automove x\r\n"],
  ["slabs reassign 1\r\n"],
  ["slabs reassign x 1\r\n"],
  ["slabs reassign 2 2\r\n"],
  ["stats cachedump\r\n"],
  ["stats cachedump 64 1\r\n"],
  ["stats detail\r\n"],
  ["stats detail x\r\n"],
  // As the first bytes of a connection the second line would be a binary header.
  ["get hot0\r\n\x80\xeebc\r\n"],
  ["\0\0\0\0\r\n"],
  ["set h\tt\x01\x80 0 0 1\r\na\r\n"],
  ["get h\tt\x01\x80\r\n"],
  [`set hot0 0 0 1048600\r\n${"x".repeat(1048600)}\r\n`],
  [`add hot1 0 0 1048600\r\n${"x".repeat(1048600)}\r\n`],
];
/** Requests that end the connection. */
const CLOSERS = ["quit\r\n", "quit now\r\n"];
const LARGE_LENGTH = 10_000;
const LARGE_ONE_IN = 20;

/** Thins out large requests: of those longer than LARGE_LENGTH bytes, one in LARGE_ONE_IN is played. */
export class LargeRequests {
  #count = 0;

  skips(length: number): boolean {
    return length > LARGE_LENGTH && this.#count++ % LARGE_ONE_IN > 0;
  }
}

/** Source of a duel's requests. The same seed and learned ids draw the same. */
export interface RequestSource {
  /** The dice. */
  readonly operations: OperationSource;
  next(): readonly Part[];
  /** Both servers gave the id that is known by this name. */
  learned(name: string): void;
  /** Ends a batch: a request, and the end of its reply, which no earlier reply can have. */
  fence(number: number): Fence;
  /** After this, both servers close the connection; empty: after nothing more is sent. */
  closer(): readonly Part[];
}

export interface Fence {
  readonly request: string;
  readonly reply: string;
}

/** The fence of a text connection. */
export function textFence(number: number): Fence {
  const value = `batch${number}`;
  return {
    request: `set end 0 0 ${value.length}\r\n${value}\r\nget end\r\n`,
    reply: `VALUE end 0 ${value.length}\r\n${value}\r\nEND\r\n`,
  };
}

/** Draws classic commands. */
export class CommandSource implements RequestSource {
  readonly operations: OperationSource;
  readonly #oddities: readonly Oddity[];
  readonly #large = new LargeRequests();

  constructor(seed: number, without: ReadonlySet<Difference>) {
    this.operations = new OperationSource(seed, RANGES);
    this.#oddities = ODDITIES.filter(([, ...meets]) => !meets.some((name) => without.has(name)));
  }

  learned(name: string): void {
    this.operations.learned(name);
  }

  fence(number: number): Fence {
    return textFence(number);
  }

  closer(): readonly Part[] {
    return [this.operations.pick(CLOSERS)];
  }

  next(): readonly Part[] {
    const { operations } = this;
    if (operations.random() < ODD_SHARE) return this.#odd();
    const operation = operations.next();
    const request = requestOf(operation);
    const silent = canBeSilent(operation) && operations.random() < NOREPLY_SHARE;
    return silent ? withNoreply(request) : request;
  }

  #odd(): readonly Part[] {
    const [text] = this.operations.pick(this.#oddities);
    if (this.#large.skips(text.length)) return this.next();
    return [text];
  }
}

function canBeSilent({ name }: Operation): boolean {
  return !name.startsWith("g");
}

/** The request with noreply at the end of its line. */
function withNoreply(request: readonly Part[]): Part[] {
  let done = false;
  return request.map((part) => {
    if (done || typeof part !== "string" || !part.includes("\r\n")) return part;
    done = true;
    return part.replace("\r\n", " noreply\r\n");
  });
}
