import { opcodeOf, packetText } from "../../support/sessions/binary_text.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";
import type { Batch } from "./generator.ts";

export const CONNECTIONS = 50;
export const KEY_COUNT = 100_000;
const VALUE_BYTES = 100;
const LARGE_KEY_COUNT = 200;
const LARGE_VALUE_BYTES = 100_000;
/** Batches are made before the clock starts and used over and over. */
const REQUEST_COUNT = 20_000;
const MULTIGET_KEY_COUNT = 100_000;
const LARGE_GET_COUNT = 1000;

/** One kind of load. */
export interface BenchRow {
  readonly name: string;
  readonly title: string;
  /** The unit that is counted: requests, or the keys of multigets. */
  readonly unit: "request" | "key";
  batches(random: Random): Batch[];
  /** The load to compare with, on the same server. For commands that other servers lack. */
  against?(random: Random): Batch[];
  /** Further options of our server. */
  readonly options?: readonly string[];
}

/** Whole numbers from 0 below `bound`; the same sequence in every run. */
export type Random = (bound: number) => number;

/** A request and its reply, as characters below 256. */
type Exchange = readonly [request: string, reply: string];

/** Writes requests and their expected replies. */
interface Dialect {
  get(key: string): Exchange;
  set(key: string): Exchange;
  /** Follows the last request of a batch and is not counted. */
  readonly end: readonly Exchange[];
}

const STORED = "STORED\r\n";
const END = "END\r\n";
export const VALUE = "v".repeat(VALUE_BYTES);
const LARGE_VALUE = "V".repeat(LARGE_VALUE_BYTES);
/** Stands for every cas id in expected replies. An id that starts from the clock has as many digits. */
const ANY_ID = "4000000000000000";

const setExchange = (key: string, value: string): Exchange => [
  `set ${key} 0 0 ${value.length}\r\n${value}\r\n`,
  STORED,
];
const valueReply = (key: string, value: string, id = ""): string =>
  `VALUE ${key} 0 ${value.length}${id}\r\n${value}\r\n`;

const TEXT: Dialect = {
  get: (key) => [`get ${key}\r\n`, valueReply(key, VALUE) + END],
  set: (key) => setExchange(key, VALUE),
  end: [],
};

const META: Dialect = {
  get: (key) => [`mg ${key} v\r\n`, `VA ${VALUE_BYTES}\r\n${VALUE}\r\n`],
  set: (key) => [`ms ${key} ${VALUE_BYTES}\r\n${VALUE}\r\n`, "HD\r\n"],
  end: [],
};

/** Reads that tell ids, by the words in front of the key. */
function withIds(words: string): Dialect {
  const get = (key: string): Exchange => [
    `${words} ${key}\r\n`,
    valueReply(key, VALUE, ` ${ANY_ID}`) + END,
  ];
  return { get, set: TEXT.set, end: [] };
}

const NOOP = opcodeOf("Noop");
/** A header, which ends with the cas id. */
const BINARY_STORED = packetText({ magic: 0x81, opcode: opcodeOf("Set") });
const FLAGS = "\0".repeat(4);

function binary(get: string, set: string, isQuiet: boolean): Dialect {
  const [getOpcode, setOpcode] = [opcodeOf(get), opcodeOf(set)];
  const reply = (opcode: number, extras = "", value = ""): string =>
    packetText({ magic: 0x81, opcode, extras, value });
  return {
    get: (key) => [packetText({ opcode: getOpcode, key }), reply(getOpcode, FLAGS, VALUE)],
    set: (key) => [
      packetText({ opcode: setOpcode, key, extras: FLAGS + FLAGS, value: VALUE }),
      isQuiet ? "" : BINARY_STORED,
    ],
    end: isQuiet ? [[packetText({ opcode: NOOP }), reply(NOOP)]] : [],
  };
}

const BINARY = binary("Get", "Set", false);
const BINARY_QUIET = binary("GetQ", "SetQ", true);
const GETS = withIds("gets");
const GETSS = withIds("getss 10");
const LEASES = ["-z", "3333"];

// deno-fmt-ignore
export const ROWS: readonly BenchRow[] = [
  { name: "get1",    title: "get, 100 B, 1 in flight",         unit: "request", batches: (random) => requests(random, TEXT, 1, 100) },
  { name: "get16",   title: "get, 100 B, 16 in flight",        unit: "request", batches: (random) => requests(random, TEXT, 16, 100) },
  { name: "p1",      title: "90 % get, 100 B, 1 in flight",    unit: "request", batches: (random) => requests(random, TEXT, 1, 90) },
  { name: "p16",     title: "90 % get, 100 B, 16 in flight",   unit: "request", batches: (random) => requests(random, TEXT, 16, 90) },
  { name: "p100",    title: "90 % get, 100 B, 100 in flight",  unit: "request", batches: (random) => requests(random, TEXT, 100, 90) },
  { name: "mget50",  title: "multiget of 50 keys, 100 B",      unit: "key",     batches: (random) => multiget(random, 50) },
  { name: "set100",  title: "set, 100 B, 100 in flight",       unit: "request", batches: (random) => requests(random, TEXT, 100, 0) },
  { name: "get100k", title: "get, 100 KB, 1 in flight",        unit: "request", batches: largeGets },
  { name: "set100k", title: "set, 100 KB, 1 in flight",        unit: "request", batches: largeSets },
  { name: "mg1",     title: "mg, 100 B, 1 in flight",          unit: "request", batches: (random) => requests(random, META, 1, 100) },
  { name: "ms1",     title: "ms, 100 B, 1 in flight",          unit: "request", batches: (random) => requests(random, META, 1, 0) },
  { name: "mg100",   title: "mg, 100 B, 100 in flight",        unit: "request", batches: (random) => requests(random, META, 100, 100) },
  { name: "ms100",   title: "ms, 100 B, 100 in flight",        unit: "request", batches: (random) => requests(random, META, 100, 0) },
  { name: "bget1",   title: "binary Get, 100 B, 1 in flight",  unit: "request", batches: (random) => requests(random, BINARY, 1, 100) },
  { name: "getq100", title: "binary: 100 GetQ and Noop, 100 B", unit: "key",    batches: (random) => requests(random, BINARY_QUIET, 100, 100) },
  { name: "setq100", title: "binary: 100 SetQ and Noop, 100 B", unit: "request", batches: (random) => requests(random, BINARY_QUIET, 100, 0) },
  { name: "getss1",  title: "getss on a hit against gets, 1 in flight",   unit: "request", batches: (random) => requests(random, GETSS, 1, 100), against: (random) => requests(random, GETS, 1, 100), options: LEASES },
];

/** What several threads are measured with: gets alone, then 90 % gets. */
export const THREAD_ROWS = ["get1", "get16", "mget50", "p1", "p16"];

/** Returns the row with this name. */
export function rowOf(name: string): BenchRow {
  return ROWS.find((one) => one.name === name)!;
}

/** Stores every key that the rows ask for. */
export function preload(): Batch[] {
  const batches = preloadShort();
  for (let key = 0; key < LARGE_KEY_COUNT; key++) {
    batches.push(batchOf([setExchange(largeKeyText(key), LARGE_VALUE)], 1));
  }
  return batches;
}

/** As `preload`, for the rows with values of 100 bytes. */
export function preloadShort(): Batch[] {
  const batches: Batch[] = [];
  for (let first = 0; first < KEY_COUNT; first += 100) {
    const exchanges: Exchange[] = [];
    for (let key = first; key < first + 100; key++) exchanges.push(TEXT.set(keyText(key)));
    batches.push(batchOf(exchanges, 100));
  }
  return batches;
}

/** Gets, or sets, of all keys with a number below `keys`, in order. */
export function eachKey(command: "get" | "set", keys: number): Batch[] {
  return Array.from({ length: keys }, (_, key) => batchOf([TEXT[command](keyText(key))], 1));
}

/** Replaces the ids in a reply, which differ from server to server. */
function withoutIds(reply: string): string {
  if (reply[0] !== "\x81") return reply.replaceAll(/ \d{16}(?=\r\n)/g, ` ${ANY_ID}`);
  let same = "";
  for (let at = 0; at < reply.length;) {
    const bodyLength = reply.charCodeAt(at + 10) * 256 + reply.charCodeAt(at + 11);
    const end = at + 24 + bodyLength;
    same += reply.slice(at, at + 16) + "\0".repeat(8) + reply.slice(at + 24, end);
    at = end;
  }
  return same;
}

export function keyText(key: number): string {
  return `key:${String(key).padStart(8, "0")}`;
}

function largeKeyText(key: number): string {
  return `large:${String(key).padStart(6, "0")}`;
}

/** @param count Requests, or keys. */
function batchOf(exchanges: readonly Exchange[], count: number): Batch {
  return {
    bytes: bytesOf(exchanges.map(([request]) => request).join("")),
    reply: exchanges.map(([, reply]) => reply).join(""),
    endsWithId: exchanges.at(-1)![1] === BINARY_STORED,
    count,
  };
}

/** Random gets and sets in batches of `inFlight`; `getPercent` of 100 are gets. */
function requests(
  random: Random,
  dialect: Dialect,
  inFlight: number,
  getPercent: number,
): Batch[] {
  const batches: Batch[] = [];
  for (let made = 0; made < REQUEST_COUNT; made += inFlight) {
    const exchanges: Exchange[] = [];
    for (let index = 0; index < inFlight; index++) {
      const key = keyText(random(KEY_COUNT));
      exchanges.push(random(100) < getPercent ? dialect.get(key) : dialect.set(key));
    }
    batches.push(batchOf([...exchanges, ...dialect.end], inFlight));
  }
  return batches;
}

function multiget(random: Random, keyCount: number): Batch[] {
  const batches: Batch[] = [];
  for (let made = 0; made < MULTIGET_KEY_COUNT; made += keyCount) {
    const keys = Array.from({ length: keyCount }, () => keyText(random(KEY_COUNT)));
    const reply = keys.map((key) => valueReply(key, VALUE)).join("") + END;
    batches.push(batchOf([[`get ${keys.join(" ")}\r\n`, reply]], keyCount));
  }
  return batches;
}

function largeGets(random: Random): Batch[] {
  // The same key's reply is the same string.
  const exchanges = Array.from({ length: LARGE_KEY_COUNT }, (_, index): Exchange => {
    const key = largeKeyText(index);
    return [`get ${key}\r\n`, valueReply(key, LARGE_VALUE) + END];
  });
  return Array.from(
    { length: LARGE_GET_COUNT },
    () => batchOf([exchanges[random(LARGE_KEY_COUNT)]!], 1),
  );
}

function largeSets(random: Random): Batch[] {
  return Array.from(
    { length: LARGE_KEY_COUNT },
    () => batchOf([setExchange(largeKeyText(random(LARGE_KEY_COUNT)), LARGE_VALUE)], 1),
  );
}

/** Sends every batch once. @throws Error when a reply is not the expected one. */
export function verify(load: { ask(batch: Batch): Uint8Array }, batches: readonly Batch[]): void {
  for (const batch of batches) {
    const text = withoutIds(textOf(load.ask(batch)));
    if (text !== batch.reply) {
      throw new Error(`Cannot compare: wrong reply ${JSON.stringify(text.slice(0, 200))}`);
    }
  }
}

/** xorshift32: good enough to pick keys. */
export function seededRandom(seed: number): Random {
  let state = seed;
  return (bound) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % bound;
  };
}
