import type { Batch } from "./generator.ts";

export const CONNECTIONS = 50;
export const KEY_COUNT = 100_000;
const VALUE_BYTES = 100;
const LARGE_KEY_COUNT = 200;
const LARGE_VALUE_BYTES = 100_000;
/** Batches are made before the clock starts and used over and over. */
const REQUEST_COUNT = 20_000;

/** One kind of load. */
export interface BenchRow {
  readonly name: string;
  readonly title: string;
  /** What is counted: requests, or the keys of multigets. */
  readonly unit: "request" | "key";
  /** Ours ÷ theirs of CPU per unit that we mean to stay below. */
  readonly goal: number;
  batches(random: Random): Batch[];
}

/** Whole numbers from 0 below `bound`; the same sequence in every run. */
export type Random = (bound: number) => number;

// deno-fmt-ignore
export const ROWS: readonly BenchRow[] = [
  { name: "p1",      title: "90 % get, 100 B, 1 in flight",   unit: "request", goal: 1.0, batches: (random) => mixed(random, 1) },
  { name: "p16",     title: "90 % get, 100 B, 16 in flight",  unit: "request", goal: 0.2, batches: (random) => mixed(random, 16) },
  { name: "p100",    title: "90 % get, 100 B, 100 in flight", unit: "request", goal: 0.2, batches: (random) => mixed(random, 100) },
  { name: "mget50",  title: "multiget of 50 keys, 100 B",     unit: "key",     goal: 1 / 1.8, batches: (random) => multiget(random, 50) },
  { name: "set100",  title: "set, 100 B, 100 in flight",      unit: "request", goal: 0.7, batches: (random) => sets(random, 100) },
  { name: "get100k", title: "get, 100 KB, 1 in flight",       unit: "request", goal: 1.1, batches: largeGets },
  { name: "set100k", title: "set, 100 KB, 1 in flight",       unit: "request", goal: 1.1, batches: largeSets },
];

/** Stores every key that the rows ask for. */
export function preload(): Batch[] {
  const batches: Batch[] = [];
  for (let first = 0; first < KEY_COUNT; first += 100) {
    const requests: string[] = [];
    for (let key = first; key < first + 100; key++) requests.push(setRequest(keyText(key), VALUE));
    batches.push(batch(requests, 100 * STORED.length, 100));
  }
  for (let key = 0; key < LARGE_KEY_COUNT; key++) {
    batches.push(batch([setRequest(largeKeyText(key), LARGE_VALUE)], STORED.length, 1));
  }
  return batches;
}

/** What the server must answer to a batch, byte for byte. */
export function expectedReply(request: Uint8Array): string {
  const replies: string[] = [];
  const text = new TextDecoder().decode(request);
  let offset = 0;
  while (offset < text.length) {
    const lineEnd = text.indexOf("\r\n", offset);
    const words = text.slice(offset, lineEnd).split(" ");
    offset = lineEnd + 2;
    if (words[0] === "set") {
      offset += Number(words[4]) + 2;
      replies.push(STORED);
    } else {
      for (const key of words.slice(1)) replies.push(valueReply(key));
      replies.push(END);
    }
  }
  return replies.join("");
}

const STORED = "STORED\r\n";
const END = "END\r\n";
const VALUE = "v".repeat(VALUE_BYTES);
const LARGE_VALUE = "V".repeat(LARGE_VALUE_BYTES);
const LARGE_KEY_PREFIX = "large:";

function keyText(key: number): string {
  return `key:${String(key).padStart(8, "0")}`;
}

function largeKeyText(key: number): string {
  return `${LARGE_KEY_PREFIX}${String(key).padStart(6, "0")}`;
}

function setRequest(key: string, value: string): string {
  return `set ${key} 0 0 ${value.length}\r\n${value}\r\n`;
}

function valueReply(key: string): string {
  const value = key.startsWith(LARGE_KEY_PREFIX) ? LARGE_VALUE : VALUE;
  return `VALUE ${key} 0 ${value.length}\r\n${value}\r\n`;
}

function batch(requests: readonly string[], replyBytes: number, count: number): Batch {
  return { bytes: new TextEncoder().encode(requests.join("")), replyBytes, count };
}

const VALUE_REPLY_BYTES = valueReply(keyText(0)).length;
const LARGE_REPLY_BYTES = valueReply(largeKeyText(0)).length;

function mixed(random: Random, inFlight: number): Batch[] {
  const batches: Batch[] = [];
  for (let made = 0; made < REQUEST_COUNT; made += inFlight) {
    const requests: string[] = [];
    let replyBytes = 0;
    for (let index = 0; index < inFlight; index++) {
      const key = keyText(random(KEY_COUNT));
      const isSet = random(10) === 0;
      requests.push(isSet ? setRequest(key, VALUE) : `get ${key}\r\n`);
      replyBytes += isSet ? STORED.length : VALUE_REPLY_BYTES + END.length;
    }
    batches.push(batch(requests, replyBytes, inFlight));
  }
  return batches;
}

function multiget(random: Random, keyCount: number): Batch[] {
  const batches: Batch[] = [];
  for (let made = 0; made < 100_000; made += keyCount) {
    const keys: string[] = [];
    for (let index = 0; index < keyCount; index++) keys.push(keyText(random(KEY_COUNT)));
    const replyBytes = keyCount * VALUE_REPLY_BYTES + END.length;
    batches.push(batch([`get ${keys.join(" ")}\r\n`], replyBytes, keyCount));
  }
  return batches;
}

function sets(random: Random, inFlight: number): Batch[] {
  const batches: Batch[] = [];
  for (let made = 0; made < REQUEST_COUNT; made += inFlight) {
    const requests: string[] = [];
    for (let index = 0; index < inFlight; index++) {
      requests.push(setRequest(keyText(random(KEY_COUNT)), VALUE));
    }
    batches.push(batch(requests, inFlight * STORED.length, inFlight));
  }
  return batches;
}

function largeGets(random: Random): Batch[] {
  return Array.from(
    { length: 1000 },
    () =>
      batch(
        [`get ${largeKeyText(random(LARGE_KEY_COUNT))}\r\n`],
        LARGE_REPLY_BYTES + END.length,
        1,
      ),
  );
}

function largeSets(random: Random): Batch[] {
  return Array.from(
    { length: LARGE_KEY_COUNT },
    () => batch([setRequest(largeKeyText(random(LARGE_KEY_COUNT)), LARGE_VALUE)], STORED.length, 1),
  );
}
