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
const MULTIGET_COUNT = 2000;
const MULTIGET_KEYS = 50;
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

const FLAGS = "\0".repeat(4);
const reply = (name: string, extras = "", value = ""): string =>
  packetText({ magic: 0x81, opcode: opcodeOf(name), extras, value });

/** Quiet requests, and a Noop behind them. */
const BINARY: Dialect = {
  get: (key) => [packetText({ opcode: opcodeOf("GetQ"), key }), reply("GetQ", FLAGS, VALUE)],
  set: (key) => [
    packetText({ opcode: opcodeOf("SetQ"), key, extras: FLAGS + FLAGS, value: VALUE }),
    "",
  ],
  end: [[packetText({ opcode: opcodeOf("Noop") }), reply("Noop")]],
};

const GETS = withIds("gets");
const GETSS = withIds("getss 10");
const LEASES = ["-z", "3333"];

// deno-fmt-ignore
export const ROWS: readonly BenchRow[] = [
  { name: "get1",    title: "get, 100 B, 1 in flight",         unit: "request", batches: requests(TEXT, 1, 100) },
  { name: "get16",   title: "get, 100 B, 16 in flight",        unit: "request", batches: requests(TEXT, 16, 100) },
  { name: "p1",      title: "90 % get, 100 B, 1 in flight",    unit: "request", batches: requests(TEXT, 1, 90) },
  { name: "p16",     title: "90 % get, 100 B, 16 in flight",   unit: "request", batches: requests(TEXT, 16, 90) },
  { name: "p100",    title: "90 % get, 100 B, 100 in flight",  unit: "request", batches: requests(TEXT, 100, 90) },
  { name: "mget50",  title: "multiget of 50 keys, 100 B",      unit: "key",     batches: multigets },
  { name: "set100",  title: "set, 100 B, 100 in flight",       unit: "request", batches: requests(TEXT, 100, 0) },
  { name: "get100k", title: "get, 100 KB, 1 in flight",        unit: "request", batches: largeGets },
  { name: "set100k", title: "set, 100 KB, 1 in flight",        unit: "request", batches: largeSets },
  { name: "mg1",     title: "mg, 100 B, 1 in flight",          unit: "request", batches: requests(META, 1, 100) },
  { name: "ms1",     title: "ms, 100 B, 1 in flight",          unit: "request", batches: requests(META, 1, 0) },
  { name: "mg100",   title: "mg, 100 B, 100 in flight",        unit: "request", batches: requests(META, 100, 100) },
  { name: "ms100",   title: "ms, 100 B, 100 in flight",        unit: "request", batches: requests(META, 100, 0) },
  { name: "getq100", title: "binary: 100 GetQ and Noop, 100 B", unit: "key",    batches: requests(BINARY, 100, 100) },
  { name: "setq100", title: "binary: 100 SetQ and Noop, 100 B", unit: "request", batches: requests(BINARY, 100, 0) },
  { name: "getss1",  title: "getss on a hit against gets, 1 in flight",   unit: "request", batches: requests(GETSS, 1, 100), against: requests(GETS, 1, 100), options: LEASES },
];

/** The load for several threads: gets alone, then 90 % gets. */
export const THREAD_ROWS = ["get1", "get16", "mget50", "p1", "p16"];

/** Returns the row with this name. */
export function rowOf(name: string): BenchRow {
  return ROWS.find((one) => one.name === name)!;
}

/** Stores every key that the rows ask for. */
export function preload(): Batch[] {
  const large = Array.from(
    { length: LARGE_KEY_COUNT },
    (_, key) => batchOf([setExchange(largeKeyText(key), LARGE_VALUE)], 1),
  );
  return [...preloadShort(), ...large];
}

/** As `preload`, for the rows with values of 100 bytes. */
export function preloadShort(): Batch[] {
  return Array.from({ length: KEY_COUNT / 100 }, (_, hundred) => {
    const sets = Array.from({ length: 100 }, (_, at) => TEXT.set(keyText(hundred * 100 + at)));
    return batchOf(sets, 100);
  });
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
    count,
  };
}

/** Random gets and sets in batches of `inFlight`; `getPercent` of 100 are gets. */
function requests(dialect: Dialect, inFlight: number, getPercent: number): BenchRow["batches"] {
  return (random) =>
    Array.from({ length: Math.ceil(REQUEST_COUNT / inFlight) }, () => {
      const exchanges = Array.from({ length: inFlight }, () => {
        const key = keyText(random(KEY_COUNT));
        return random(100) < getPercent ? dialect.get(key) : dialect.set(key);
      });
      return batchOf([...exchanges, ...dialect.end], inFlight);
    });
}

function multigets(random: Random): Batch[] {
  return Array.from({ length: MULTIGET_COUNT }, () => {
    const keys = Array.from({ length: MULTIGET_KEYS }, () => keyText(random(KEY_COUNT)));
    const reply = keys.map((key) => valueReply(key, VALUE)).join("") + END;
    return batchOf([[`get ${keys.join(" ")}\r\n`, reply]], MULTIGET_KEYS);
  });
}

function largeGets(random: Random): Batch[] {
  // The same key's reply is the same string.
  const batches = Array.from({ length: LARGE_KEY_COUNT }, (_, index) => {
    const key = largeKeyText(index);
    return batchOf([[`get ${key}\r\n`, valueReply(key, LARGE_VALUE) + END]], 1);
  });
  return Array.from({ length: LARGE_GET_COUNT }, () => batches[random(LARGE_KEY_COUNT)]!);
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
