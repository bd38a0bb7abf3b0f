import process from "node:process";
import { getHeapStatistics } from "node:v8";
import { Conversation } from "../../protocol/conversation.ts";
import type { OwnerId } from "../../store/connections.ts";
import { INPUT_BYTES } from "../../store/limits.ts";
import { opcodeOf, packetText } from "./binary_text.ts";
import type { ConversationSide } from "./conversation_side.ts";
import { bytesOf } from "./side.ts";

const KEY_COUNT = 400;
const ALLOCATION_TRIES = 5;
const VALUE = "v".repeat(100);

const keyOf = (index: number): string => `key:${String(index).padStart(8, "0")}`;
const keys = Array.from({ length: KEY_COUNT }, (_, index) => keyOf(index));

const packets = (opcode: string, keyed: readonly string[], extras = "", value = ""): string =>
  keyed.map((key) => packetText({ opcode: opcodeOf(opcode), key, extras, value })).join("");
const NOOP = packetText({ opcode: opcodeOf("Noop") });
const missing = keys.map((key) => `no${key}`);
/** Flags and expiry time of a set: none. */
const SET_EXTRAS = "\0".repeat(8);

/** Batches of requests by name: each leaves the store as it found it, so that it can be fed again and again. */
export const BATCHES: Readonly<Record<string, string>> = {
  "get": keys.map((key) => `get ${key}\r\n`).join(""),
  "gets": keys.map((key) => `gets ${key}\r\n`).join(""),
  "get, missing": keys.map((key) => `get no${key}\r\n`).join(""),
  "get of 50 keys": batchesOf(50).map((part) => `get ${part.join(" ")}\r\n`).join(""),
  "set": keys.map((key) => `set ${key} 0 0 100\r\n${VALUE}\r\n`).join(""),
  "set with flags and expiry": keys.map((key) => `set ${key} 7 3600 100\r\n${VALUE}\r\n`).join(""),
  "add": keys.map((key) => `add ${key} 0 0 100\r\n${VALUE}\r\n`).join(""),
  "touch": keys.map((key) => `touch ${key} 3600\r\n`).join(""),
  "incr": keys.map((key) => `incr n${key} 1\r\n`).join(""),
  "getss": keys.map((key) => `getss 10 ${key}\r\n`).join(""),
  "getss, leased": keys.map((key) => `getss 10 no${key}\r\n`).join(""),
  "deletess": keys.map((key) => `deletess 10 no${key}\r\n`).join(""),
  "mg": keys.map((key) => `mg ${key} v\r\n`).join(""),
  "mg with flags": keys.map((key) => `mg ${key} s v c t f k O123\r\n`).join(""),
  "mg, missing": keys.map((key) => `mg no${key} v\r\n`).join(""),
  "mg N, made": keys.map((key) => `mg stub${key} v N30\r\n`).join(""),
  "ms": keys.map((key) => `ms ${key} 100\r\n${VALUE}\r\n`).join(""),
  "ms with flags": keys.map((key) => `ms ${key} 100 T3600 F7 c\r\n${VALUE}\r\n`).join(""),
  "md, missing": keys.map((key) => `md no${key}\r\n`).join(""),
  "ma": keys.map((key) => `ma n${key} v\r\n`).join(""),
  "delete, missing": keys.map((key) => `delete no${key}\r\n`).join(""),
  "binary Get": packets("Get", keys),
  "binary GetQ": packets("GetQ", keys) + NOOP,
  "binary GetKQ": packets("GetKQ", keys) + NOOP,
  "binary GetKQ, missing": packets("GetKQ", missing) + NOOP,
  "binary Set": packets("Set", keys, SET_EXTRAS, VALUE),
  "binary SetQ": packets("SetQ", keys, SET_EXTRAS, VALUE) + NOOP,
};

/** What the server that is fed must be started with. */
export const FEED_OPTIONS = ["-z", "3333"];

/** Requests, or keys, in every batch. */
export const REQUEST_COUNT = KEY_COUNT;

function batchesOf(size: number): string[][] {
  const batches: string[][] = [];
  for (let at = 0; at < keys.length; at += size) batches.push(keys.slice(at, at + size));
  return batches;
}

/** Feeds batches without a transport, as fast as it goes. */
export class FeedLoop {
  readonly #side: ConversationSide;
  #conversation: Conversation;
  #length = 0;

  constructor(side: ConversationSide) {
    this.#side = side;
    const peer = side.connect();
    for (const key of keys) {
      peer.ask(`set ${key} 0 0 100\r\n${VALUE}\r\nset n${key} 0 0 6\r\n100000\r\n`);
    }
    this.#conversation = this.#converse();
  }

  #converse(): Conversation {
    return new Conversation(this.#side.thread, 1_000_000 as OwnerId, { protocol: "auto" });
  }

  load(name: string): void {
    const bytes = bytesOf(BATCHES[name]!);
    if (bytes.length > INPUT_BYTES) throw new RangeError(`Cannot feed ${name}: too long`);
    this.#side.thread.input.bytes.set(bytes);
    this.#length = bytes.length;
    this.#conversation = this.#converse();
  }

  /** Feeds the batch so many times. */
  run(rounds: number): void {
    const { reply } = this.#side.thread;
    for (let round = 0; round < rounds; round++) {
      for (let at = 0; at < this.#length;) {
        reply.reset();
        at = this.#conversation.feed(at, this.#length);
      }
    }
  }

  /**
   * Bytes allocated per request, after so many rounds of warming up. The least of several tries, because V8 has business of its own.
   */
  allocatedPerRequest(warmUpRounds: number, rounds: number): number {
    this.run(warmUpRounds);
    let least = Infinity;
    for (let attempt = 0; attempt < ALLOCATION_TRIES; attempt++) {
      const before = allocatedBytes();
      this.run(rounds);
      least = Math.min(least, (allocatedBytes() - before) / (rounds * REQUEST_COUNT));
    }
    return least;
  }
}

/** What V8 has allocated since the start: it only grows. */
export function allocatedBytes(): number {
  return (getHeapStatistics() as unknown as { total_allocated_bytes: number })
    .total_allocated_bytes;
}

/** Processor time of this process, in nanoseconds. */
export function processorNs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}
