import process from "node:process";
import { getHeapStatistics } from "node:v8";
import type { Conversation } from "../../../protocol/conversation.ts";
import type { ConnectionId } from "../../../store/connections.ts";
import { INPUT_BYTES } from "../../../store/limits.ts";
import { opcodeOf, packetText } from "../sessions/binary_text.ts";
import type { ConversationSide } from "../sessions/conversation_side.ts";
import { bytesOf } from "../sessions/side.ts";

const KEY_COUNT = 400;
export const ALLOCATION_TRIES = 5;
/** Measurements at most, while they find too much. */
const LATE_TRIES = 200;
/** Most bytes per request that the measurement and the engine's own work may allocate. */
export const BYTES_PER_REQUEST_MAX = 8;
const VALUE = "v".repeat(100);

const keyOf = (index: number): string => `key:${String(index).padStart(8, "0")}`;
const keys = Array.from({ length: KEY_COUNT }, (_, index) => keyOf(index));

const packets = (opcode: string, keyed: readonly string[], extras = "", value = ""): string[] =>
  keyed.map((key) => packetText({ opcode: opcodeOf(opcode), key, extras, value }));
const NOOP = packetText({ opcode: opcodeOf("Noop") });
const missing = keys.map((key) => `no${key}`);
/** Flags and expiry time of a set: none. */
const SET_EXTRAS = "\0".repeat(8);

/** Requests by name: together they leave the store as they found it, so that they can be sent again and again. */
export const REQUESTS: Readonly<Record<string, readonly string[]>> = {
  "get": keys.map((key) => `get ${key}\r\n`),
  "gets": keys.map((key) => `gets ${key}\r\n`),
  "get, missing": keys.map((key) => `get no${key}\r\n`),
  "get of 50 keys": batchesOf(50).map((part) => `get ${part.join(" ")}\r\n`),
  "set": keys.map((key) => `set ${key} 0 0 100\r\n${VALUE}\r\n`),
  "set with flags and expiry": keys.map((key) => `set ${key} 7 3600 100\r\n${VALUE}\r\n`),
  "add": keys.map((key) => `add ${key} 0 0 100\r\n${VALUE}\r\n`),
  "touch": keys.map((key) => `touch ${key} 3600\r\n`),
  "incr": keys.map((key) => `incr n${key} 1\r\n`),
  "getss": keys.map((key) => `getss 10 ${key}\r\n`),
  "getss, leased": keys.map((key) => `getss 10 no${key}\r\n`),
  "deletess": keys.map((key) => `deletess 10 no${key}\r\n`),
  "mg": keys.map((key) => `mg ${key} v\r\n`),
  "mg with flags": keys.map((key) => `mg ${key} s v c t f k O123\r\n`),
  "mg, missing": keys.map((key) => `mg no${key} v\r\n`),
  "mg N, made": keys.map((key) => `mg stub${key} v N30\r\n`),
  "ms": keys.map((key) => `ms ${key} 100\r\n${VALUE}\r\n`),
  "ms with flags": keys.map((key) => `ms ${key} 100 T3600 F7 c\r\n${VALUE}\r\n`),
  "md, missing": keys.map((key) => `md no${key}\r\n`),
  "ma": keys.map((key) => `ma n${key} v\r\n`),
  "delete, missing": keys.map((key) => `delete no${key}\r\n`),
  "set and delete": keys.flatMap((
    key,
  ) => [`set x${key} 0 0 9\r\n123456789\r\n`, `delete x${key}\r\n`]),
  "binary Get": packets("Get", keys),
  "binary GetQ": [...packets("GetQ", keys), NOOP],
  "binary GetKQ": [...packets("GetKQ", keys), NOOP],
  "binary GetKQ, missing": [...packets("GetKQ", missing), NOOP],
  "binary Set": packets("Set", keys, SET_EXTRAS, VALUE),
  "binary SetQ": [...packets("SetQ", keys, SET_EXTRAS, VALUE), NOOP],
};

/** Requests that store the keys of `REQUESTS`. */
export const PRELOAD = keys.map((key) =>
  `set ${key} 0 0 100\r\n${VALUE}\r\nset n${key} 0 0 6\r\n100000\r\n`
).join("");

/** Options of the server that is fed. */
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
    side.connect().ask(PRELOAD);
    this.#conversation = this.#converse();
  }

  #converse(): Conversation {
    return this.#side.protocols.open(1_000_000 as ConnectionId, { protocol: "auto" });
  }

  load(name: string): void {
    const bytes = bytesOf(REQUESTS[name]!.join(""));
    if (bytes.length > INPUT_BYTES) throw new RangeError(`Cannot feed ${name}: too long`);
    this.#side.thread.input.bytes.set(bytes);
    this.#length = bytes.length;
    this.#conversation = this.#converse();
  }

  /** Feeds the batch `rounds` times. */
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
   * Bytes allocated per request, after so many rounds of warming up. The least of several tries,
   * because V8 has business of its own; of more tries while it is too much, because on a busy
   * machine V8 compiles late.
   */
  allocatedPerRequest(warmUpRounds: number, rounds: number): number {
    this.run(warmUpRounds);
    let least = Infinity;
    for (let attempt = 0; attempt < LATE_TRIES; attempt++) {
      if (attempt >= ALLOCATION_TRIES && least < BYTES_PER_REQUEST_MAX) break;
      const before = allocatedBytes();
      this.run(rounds);
      least = Math.min(least, (allocatedBytes() - before) / (rounds * REQUEST_COUNT));
    }
    return least;
  }
}

/** Bytes that V8 has allocated since the start. Grows monotonically. */
export function allocatedBytes(): number {
  return (getHeapStatistics() as unknown as { total_allocated_bytes: number })
    .total_allocated_bytes;
}

/** Processor time of this process, in nanoseconds. */
export function processorNs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}
