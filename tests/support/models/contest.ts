import { assert, assertEquals } from "@std/assert";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { FIRST_SECOND } from "../../../store/limits.ts";
import { type ConversationPeer, ConversationSide } from "../sessions/conversation_side.ts";
import { withRequests } from "./contest_property.ts";
import { Model, type Operation, requestOf, type StoreOperation } from "./model.ts";
import { type OperationRanges, OperationSource } from "./operations.ts";
import { bytesOf } from "../sessions/side.ts";
import { type Holes, matchReply, requestText, showText } from "../sessions/transcript.ts";

type Note = (event: string) => void;

const PEERS = 3;
const CHECK_EVERY = 300;

/** Plays random operations to conversations and to the model, and compares every reply. */
export class Contest {
  readonly #side: ConversationSide;
  readonly #model: Model;
  readonly #source: OperationSource;
  readonly #peers: ConversationPeer[];
  readonly #ids: Holes = new Map();
  #newestId = 0n;
  #newestVersion = 0;
  /** Items the cache gave up for lack of memory. */
  evicted = 0;

  /** @param options Of the server, as on the command line. */
  constructor(seed: number, options: readonly string[], ranges: OperationRanges) {
    this.#side = new ConversationSide(options);
    const { startedUnixSec, itemSizeMaxBytes, lockLimits } = this.#side.thread.memory.options;
    const startedAt = startedUnixSec - FIRST_SECOND;
    this.#model = new Model(FIRST_SECOND, startedAt, itemSizeMaxBytes, lockLimits);
    this.#source = new OperationSource(seed, ranges);
    this.#peers = Array.from({ length: PEERS }, () => this.#side.connect());
  }

  /** @param steps A seed for each step. */
  run(steps: readonly number[]): void {
    withRequests((note) => {
      for (const [count, seed] of steps.entries()) {
        this.#source.beginStep(seed);
        if (this.#source.random() < 0.02) this.#advance(this.#source.integer(1, 4), note);
        if (this.#source.random() < 0.01) this.#replacePeer(note);
        this.#step(this.#source.next(), note);
        if (count % CHECK_EVERY === 0) this.#side.check();
      }
      this.#side.check();
    });
  }

  #advance(seconds: number, note: Note): void {
    note(`clock +${seconds}`);
    this.#model.advance(seconds);
    this.#side.advanceNow(seconds);
  }

  /** Replaces a connection by a new one. */
  #replacePeer(note: Note): void {
    const index = this.#source.integer(0, PEERS);
    note(`${index}: disconnects`);
    const peer = this.#peers[index]!;
    this.#model.release(peer.owner);
    peer.disconnect();
    this.#peers[index] = this.#side.connect();
  }

  #step(operation: Operation, note: Note): void {
    const index = this.#source.integer(0, PEERS);
    const peer = this.#peers[index]!;
    const request = requestText(requestOf(operation), this.#ids);
    note(`${index}> ${showText(request)}`);
    const keys = "keys" in operation ? operation.keys : "key" in operation ? [operation.key] : [];
    for (const key of keys) this.#forgetEvicted(key);
    const reply = this.#ask(peer, request);
    if ("value" in operation) this.#meetEviction(operation, reply);
    const expected = this.#model.execute(operation, peer.owner);
    const known = new Set(this.#ids.keys());
    const length = matchReply(expected, this.#ids, reply);
    if (length !== reply.length) {
      const wanted = expected.map((part) => typeof part === "string" ? part : `{${part.hole}}`);
      assertEquals(showText(reply), showText(wanted.join("")), `after ${showText(request)}`);
    }
    const token = expected.find((part) => typeof part !== "string");
    if (operation.name === "token get" && token !== undefined) {
      this.#source.learnedToken(operation.key, token.hole);
    }
    for (const [name, id] of this.#ids) if (!known.has(name)) this.#learn(name, BigInt(id));
  }

  /** Sends a request in random pieces and returns the reply. */
  #ask(peer: ConversationPeer, request: string): string {
    let reply = "";
    for (let at = 0; at < request.length;) {
      const length = this.#source.random() < 0.9
        ? request.length
        : this.#source.integer(1, request.length + 1);
      reply += peer.ask(request.slice(at, at + length));
      at += length;
    }
    return reply;
  }

  #forgetEvicted(key: string): void {
    if (!this.#model.has(key) || this.#isThere(key)) return;
    assert(!this.#model.isLocked(key), "what is locked is not evicted");
    this.#model.forget(key);
    this.evicted++;
  }

  /** Notes that a store evicted its own old item to make room for the value. */
  #meetEviction({ name, key }: StoreOperation, reply: string): void {
    if (name === "set") return;
    if (name !== "add") {
      if (reply.startsWith("NOT_")) this.#forgetEvicted(key);
    } else if (reply === "STORED\r\n" && this.#model.has(key)) {
      this.#model.forget(key);
      this.evicted++;
    }
  }

  #isThere(key: string): boolean {
    const { cache, input, operation } = this.#side.thread;
    const bytes = bytesOf(key);
    input.bytes.set(bytes);
    operation.begin(0, bytes.length);
    cache.enter();
    cache.prefetch.addHash(operation);
    const item = cache.peek(operation);
    cache.leave();
    return item !== NO_ITEM;
  }

  /** Asserts that a later change has a larger id. */
  #learn(name: string, id: bigint): void {
    this.#source.learned(name);
    const version = Number(name.slice("id".length));
    if (version <= this.#newestVersion) return;
    assert(id > this.#newestId, "cas ids grow");
    this.#newestVersion = version;
    this.#newestId = id;
  }
}
