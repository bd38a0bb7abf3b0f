import { hashKey } from "../../store/base/hash.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { CONTROL, type Memory } from "../../store/memory/memory.ts";
import { opcodeOf } from "../support/sessions/binary_text.ts";
import { ByteClient } from "./byte_client.ts";
import { Kind } from "./content.ts";
import { Presence, ROW } from "./ledger.ts";
import { ReplyParser } from "./reply_parser.ts";
import type { ThreadParts } from "./thread_parts.ts";

/** Keys of one batch. */
const BATCH_KEYS = 24;
/** Ways to read a batch. */
const WAYS = ["lines", "multiget", "gets", "meta", "binary", "single"] as const;
type Way = typeof WAYS[number];
const GETK = opcodeOf("GetK");
const REQUEST_MAGIC = 0x80;
/** Buckets of the index's first level: keys are grouped by theirs. */
const GROUPS = 1 << 14;
/** Buckets ahead of the one that is split next. */
const AHEAD = 6;
/** Attempts to find a key there that has been stored. */
const PICKS = 10;

/** Reads keys and compares what it reads with the ledger. */
export class Reader {
  /** Keys read. */
  reads = 0;
  hits = 0;
  readonly #parts: ThreadParts;
  readonly #memory: Memory;
  readonly #text: ByteClient;
  readonly #binary: ByteClient;
  readonly #parser: ReplyParser;
  readonly #batch = new Int32Array(BATCH_KEYS);
  /** The ledger's words before the batch: a row of words for each key. */
  readonly #before = new Int32Array(BATCH_KEYS * ROW.WORDS);
  #secondBefore = 0;
  /** The newest version and id that this thread has seen of each key. */
  readonly #seen: Int32Array;
  readonly #seenId: Float64Array;
  /** With `followsSplits`: keys by their first bucket. */
  readonly #groups: readonly number[][];

  constructor(parts: ThreadParts, memory: Memory, connect: () => ByteClient) {
    this.#parts = parts;
    this.#memory = memory;
    this.#text = connect();
    this.#binary = connect();
    this.#parser = new ReplyParser(this.#text.reply);
    this.#seen = new Int32Array(parts.keys.length);
    this.#seenId = new Float64Array(parts.keys.length);
    this.#groups = parts.scenario.followsSplits === true ? this.#group() : [];
  }

  /** Reads a batch of keys in one of several ways. */
  round(): void {
    const way = WAYS[this.#parts.below(WAYS.length)]!;
    const count = way === "single" ? 1 : BATCH_KEYS;
    for (let index = 0; index < count; index++) this.#batch[index] = this.#pick();
    this.#note(count);
    const client = way === "binary" ? this.#binary : this.#text;
    this.#ask(client, way, count);
    client.exchange();
    this.#parser.begin(client.reply);
    try {
      this.#judgeAll(way, count);
      this.#parser.end();
    } catch (error) {
      if (error instanceof Error) error.message += ` (read by ${way})`;
      throw error;
    }
    this.reads += count;
  }

  close(): void {
    this.#text.disconnect();
    this.#binary.disconnect();
  }

  #pick(): number {
    const { ledger, keys } = this.#parts;
    let key = this.#parts.below(keys.length);
    if (this.#groups.length === 0) return key;
    const { control } = this.#memory;
    const next = control[CONTROL.HASH_BUCKETS]! - control[CONTROL.HASH_LEVEL]!;
    for (let attempt = 0; attempt < PICKS; attempt++) {
      const group = this.#groups[(next + this.#parts.below(AHEAD)) & (GROUPS - 1)]!;
      if (group.length > 0) key = group[this.#parts.below(group.length)]!;
      if (ledger.get(key, ROW.VERSION) > 0) return key;
    }
    return key;
  }

  #group(): number[][] {
    const groups: number[][] = Array.from({ length: GROUPS }, () => []);
    for (const [key, bytes] of this.#parts.keys.entries()) {
      const region = new ByteRegion(bytes.slice().buffer);
      const hash = hashKey(region, 0, bytes.length, this.#memory.options.hashSeed);
      groups[hash & (GROUPS - 1)]!.push(key);
    }
    return groups;
  }

  /** Notes what is known before the batch. */
  #note(count: number): void {
    const { ledger } = this.#parts;
    for (let index = 0; index < count; index++) {
      const key = this.#batch[index]!;
      const row = index * ROW.WORDS;
      // First of all: when there were no more changes, or removals, after the read, the other words were right.
      this.#before[row + ROW.DONE] = ledger.get(key, ROW.DONE);
      this.#before[row + ROW.REMOVALS] = ledger.get(key, ROW.REMOVALS);
      for (let word: number = ROW.VERSION; word <= ROW.DEADLINE_MOST; word++) {
        this.#before[row + word] = ledger.get(key, word);
      }
    }
    this.#secondBefore = this.#second();
  }

  #second(): number {
    return Atomics.load(this.#memory.control, CONTROL.NOW_SEC);
  }

  #ask({ request }: ByteClient, way: Way, count: number): void {
    const { keys } = this.#parts;
    if (way === "multiget" || way === "gets") request.text(way === "gets" ? "gets" : "get");
    for (let index = 0; index < count; index++) {
      const key = keys[this.#batch[index]!]!;
      if (way === "binary") {
        request.reserve(24);
        const { view } = request;
        const at = request.length;
        view.setUint32(at, (REQUEST_MAGIC << 24) | (GETK << 16) | key.length);
        view.setUint32(at + 4, 0);
        view.setUint32(at + 8, key.length);
        view.setUint32(at + 12, index);
        view.setUint32(at + 16, 0);
        view.setUint32(at + 20, 0);
        request.length += 24;
        request.append(key);
        continue;
      }
      request.text(way === "meta" ? "mg " : way === "multiget" || way === "gets" ? " " : "get ");
      request.append(key);
      if (way === "meta") request.text(" v f s k c\r\n");
      else if (way === "lines" || way === "single") request.text("\r\n");
    }
    if (way === "multiget" || way === "gets") request.text("\r\n");
  }

  #judgeAll(way: Way, count: number): void {
    const parser = this.#parser;
    for (let index = 0; index < count; index++) {
      const key = this.#parts.keys[this.#batch[index]!]!;
      const isHit = way === "binary"
        ? parser.binaryValue(key, index)
        : way === "meta"
        ? parser.metaValue(key)
        : parser.value(key);
      if (isHit) this.#judgeHit(index);
      else this.#judgeMiss(index);
      if (way === "lines" || way === "single") parser.expect("END\r\n");
    }
    if (way === "multiget" || way === "gets") parser.expect("END\r\n");
  }

  /** Whether no change of the key was in progress from before the batch until now. */
  #wasQuiet(index: number): boolean {
    const begun = this.#parts.ledger.get(this.#batch[index]!, ROW.BEGUN);
    return begun === this.#before[index * ROW.WORDS + ROW.DONE];
  }

  #judgeHit(index: number): void {
    this.hits++;
    const key = this.#batch[index]!;
    const row = index * ROW.WORDS;
    const version = this.#parts.versionOf(key, this.#parser);
    const most = this.#parts.ledger.get(key, ROW.VERSION_BEGUN);
    const least = this.#before[row + ROW.VERSION]!;
    this.#assert(
      version <= most,
      index,
      `version ${version} is not begun: the last one is ${most}`,
    );
    this.#assert(
      version >= least,
      index,
      `version ${version} is older than ${least}, which was answered before`,
    );
    // A change may hold the key's lock: a locked item outlives a flush.
    this.#assert(
      version >= this.#before[row + ROW.FLOOR]! || !this.#wasQuiet(index),
      index,
      `version ${version} was flushed before`,
    );
    const seen = this.#seen[key]!;
    this.#assert(
      version >= seen,
      index,
      `version ${version} is older than ${seen}, which was read before`,
    );
    this.#judgeId(index, version, seen);
    this.#seen[key] = version;
    const deadline = this.#before[row + ROW.DEADLINE_MOST]!;
    const isExpired = deadline !== 0 && this.#secondBefore >= deadline;
    this.#assert(
      !isExpired || !this.#wasQuiet(index),
      index,
      `version ${version} is dead since second ${deadline}; read in ${this.#secondBefore}`,
    );
  }

  #judgeId(index: number, version: number, seen: number): void {
    const { id } = this.#parser;
    if (id < 0) return;
    const key = this.#batch[index]!;
    if (this.#parts.kindOf(key) === Kind.EXPLICIT) {
      this.#assert(id === version, index, `id ${id} of version ${version}`);
      return;
    }
    const before = this.#seenId[key]!;
    const isRight = version > seen ? id > before : id >= before;
    this.#assert(isRight, index, `id ${id} of version ${version}, after ${before} of ${seen}`);
    this.#seenId[key] = id;
  }

  #judgeMiss(index: number): void {
    const { scenario, ledger } = this.#parts;
    const row = index * ROW.WORDS;
    const isPresent = this.#before[row + ROW.PRESENCE] === Presence.PRESENT;
    if (!scenario.isSteady || !isPresent) return;
    const key = this.#batch[index]!;
    if (scenario.ttlSecMax === 0) {
      const removals = this.#before[row + ROW.REMOVALS];
      this.#assert(ledger.get(key, ROW.REMOVALS) !== removals, index, "a miss: nobody removed it");
      return;
    }
    const deadline = this.#before[row + ROW.DEADLINE_LEAST]!;
    const mayBeDead = deadline !== 0 && this.#second() >= deadline;
    this.#assert(mayBeDead || !this.#wasQuiet(index), index, "a miss: nobody changed it");
  }

  #assert(condition: boolean, index: number, reason: string): void {
    if (!condition) throw new Error(`key ${this.#batch[index]}: ${reason}`);
  }
}
