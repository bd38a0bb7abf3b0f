import { assert } from "../base/assert.ts";
import type { ByteRegion } from "../base/bytes.ts";
import { takeId } from "../memory/ids.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";
import { NO_SLOT, SlotTable } from "../memory/slot_table.ts";
import type { Key, Operation } from "../operation.ts";

/**
 * Update tokens: a writer's claim on a key, from before it changes the database until after its commit.
 *
 *   state     how it begins                     who may do what                    how it ends
 *   none      –                                 as if there were no tokens         –
 *   pending   token get, until the journal      nobody has the id yet; the key     the token is on the disk: out;
 *             has it on the disk                is uncacheable already             it cannot be: none
 *   out       the reply to token get            the key has no value and no        token release, token drop; never
 *                                               lease, and gets none: reads miss,  by a clock, a flush, an eviction,
 *                                               stores and fills are refused       a disconnect or a restart
 *
 * A key may have many tokens; it is cacheable when it has none. Quarantine makes every key uncacheable.
 *
 * A record of the table (see slot_table.ts) has key, owner's tag and peer as its bytes, one behind the other, and these
 * words:
 *
 *   word 3  id, lower half; 4  upper half
 *   word 5  LENGTHS: of key, owner, peer, 8 bits each; PENDING
 *   word 6  since when, Unix time in seconds
 *   word 7  hash of the key
 */
export type TokenRef = number & { readonly unit?: "record of the table of update tokens" };

/** No record. */
export const NO_TOKEN: TokenRef = NO_SLOT;

const WORD = {
  ID_LOW: 3,
  ID_HIGH: 4,
  LENGTHS: 5,
  SINCE_UNIX_SEC: 6,
  HASH: 7,
} as const;

const LENGTH_MASK = 0xff;
const OWNER_SHIFT = 8;
const PEER_SHIFT = 16;
const PENDING = 1 << 24;

/** Bits of CONTROL.UNCACHEABLE beside the number of tokens: every key is, because an operator wants it so, */
const QUARANTINE = 1 << 30;
/** or because the journal is unreadable, or can reserve no more ids. */
const CLOSED = 1 << 29;

/** One thread's view of the table of update tokens. */
export class UpdateTokens {
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #table: SlotTable;

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#control = memory.control;
    this.#table = new SlotTable(memory.shared.tokens, memory.options.tokenEntries);
  }

  /** The records, by bucket. */
  get table(): SlotTable {
    return this.#table;
  }

  /** Whether any key may be uncacheable. Everything else can be skipped while it is false. */
  get isAnyOut(): boolean {
    return this.#control[CONTROL.UNCACHEABLE] !== 0;
  }

  /** Whether every key is uncacheable. */
  get isQuarantined(): boolean {
    return (this.#control[CONTROL.UNCACHEABLE]! & (QUARANTINE | CLOSED)) !== 0;
  }

  /** Whether `quarantine` is on. */
  get isInQuarantine(): boolean {
    return (this.#control[CONTROL.UNCACHEABLE]! & QUARANTINE) !== 0;
  }

  /** Begins or ends quarantine. */
  quarantine(on: boolean): void {
    this.#setBit(QUARANTINE, on);
  }

  /** Makes every key uncacheable while the journal is unusable, independent of `quarantine`. */
  close(on: boolean): void {
    this.#setBit(CLOSED, on);
  }

  /** Whether nothing may be stored or leased under the key: a token is out, or all keys are in quarantine. */
  isUncacheable(key: Key): boolean {
    if (this.#control[CONTROL.UNCACHEABLE] === 0) return false;
    return this.isQuarantined || this.first(key) !== NO_TOKEN;
  }

  /** The key's first token, or NO_TOKEN. */
  first(key: Key): TokenRef {
    const table = this.#table;
    if (table.count === 0) return NO_TOKEN;
    return this.#firstFrom(table.head(table.bucketOf(key.hash)), key);
  }

  /** The next token of the same key, or NO_TOKEN. */
  next(token: TokenRef, key: Key): TokenRef {
    return this.#firstFrom(this.#table.next(token), key);
  }

  /** The key's token with this id, or NO_TOKEN. */
  withId(key: Key, idLow: number, idHigh: number): TokenRef {
    let token = this.first(key);
    while (token !== NO_TOKEN && !this.hasId(token, idLow, idHigh)) token = this.next(token, key);
    return token;
  }

  /** The key's token whose owner has the operation's tag, or NO_TOKEN. */
  withOwner(operation: Operation): TokenRef {
    const { input, keyLength, tagOffset, tagLength } = operation;
    if (tagLength === 0) return NO_TOKEN;
    let token = this.first(operation);
    for (; token !== NO_TOKEN; token = this.next(token, operation)) {
      if (this.ownerLength(token) !== tagLength) continue;
      const length = this.#dataLength(token);
      if (this.#table.equals(token, length, keyLength, tagLength, input, tagOffset)) return token;
    }
    return NO_TOKEN;
  }

  /**
   * Puts a token with a fresh id on the operation's key into the table, pending.
   *
   * @returns NO_TOKEN when the table is full.
   */
  add(operation: Operation): TokenRef {
    const token = this.#insert(operation, this.#nowUnixSec);
    if (token === NO_TOKEN) return NO_TOKEN;
    takeId(this.#memory);
    this.#setId(token, this.#control[CONTROL.ID_LOW]!, this.#control[CONTROL.ID_HIGH]!);
    this.#table.setWord(token, WORD.LENGTHS, this.#table.word(token, WORD.LENGTHS) | PENDING);
    return token;
  }

  /**
   * Puts a token into the table that was out before the process started, with the id `operation.idLow/High`. To be
   * called with the oldest first.
   *
   * @returns NO_TOKEN when the table is full.
   */
  restore(operation: Operation, sinceUnixSec: number): TokenRef {
    const token = this.#insert(operation, sinceUnixSec);
    if (token !== NO_TOKEN) this.#setId(token, operation.idLow, operation.idHigh);
    return token;
  }

  /** The token is out: what promises it is on the disk. */
  settle(token: TokenRef): void {
    this.#table.setWord(token, WORD.LENGTHS, this.#table.word(token, WORD.LENGTHS) & ~PENDING);
  }

  remove(token: TokenRef): void {
    const table = this.#table;
    assert(this.#countedOut > 0, "a token that ends was out");
    table.remove(token, table.word(token, WORD.HASH), this.#dataLength(token));
    this.#control[CONTROL.UNCACHEABLE]! -= 1;
    assert(this.#countedOut === table.count, "UNCACHEABLE counts the tokens of the table");
  }

  hasId(token: TokenRef, idLow: number, idHigh: number): boolean {
    return this.idLow(token) === idLow && this.idHigh(token) === idHigh;
  }

  idLow(token: TokenRef): number {
    return this.#table.word(token, WORD.ID_LOW);
  }

  idHigh(token: TokenRef): number {
    return this.#table.word(token, WORD.ID_HIGH);
  }

  isPending(token: TokenRef): boolean {
    return (this.#table.word(token, WORD.LENGTHS) & PENDING) !== 0;
  }

  sinceUnixSec(token: TokenRef): number {
    return this.#table.word(token, WORD.SINCE_UNIX_SEC) >>> 0;
  }

  /** How long the token has been out, in seconds; 0 if the clock went back since. */
  ageSec(token: TokenRef): number {
    return Math.max(0, this.#nowUnixSec - this.sinceUnixSec(token));
  }

  /** The token that has been out longest, or NO_TOKEN. */
  get oldest(): TokenRef {
    return this.#table.oldest;
  }

  /** The token that was given last, or NO_TOKEN. */
  get newest(): TokenRef {
    return this.#table.newest;
  }

  /** The next older token, or NO_TOKEN. */
  older(token: TokenRef): TokenRef {
    return this.#table.older(token);
  }

  /** The next newer token, or NO_TOKEN. */
  newer(token: TokenRef): TokenRef {
    return this.#table.newer(token);
  }

  keyLength(token: TokenRef): number {
    return this.#table.word(token, WORD.LENGTHS) & LENGTH_MASK;
  }

  ownerLength(token: TokenRef): number {
    return (this.#table.word(token, WORD.LENGTHS) >>> OWNER_SHIFT) & LENGTH_MASK;
  }

  peerLength(token: TokenRef): number {
    return (this.#table.word(token, WORD.LENGTHS) >>> PEER_SHIFT) & LENGTH_MASK;
  }

  hashOf(token: TokenRef): number {
    return this.#table.word(token, WORD.HASH);
  }

  /** Copies key, owner's tag and peer, one behind the other. @returns How many bytes that were. */
  copyData(token: TokenRef, to: ByteRegion, toOffset: number): number {
    const length = this.#dataLength(token);
    this.#table.read(token, length, 0, length, to, toOffset);
    return length;
  }

  get #nowUnixSec(): number {
    return this.#control[CONTROL.STARTED_UNIX_SEC]! + this.#control[CONTROL.NOW_SEC]!;
  }

  /** The number of tokens, as UNCACHEABLE has it. */
  get #countedOut(): number {
    return this.#control[CONTROL.UNCACHEABLE]! & (CLOSED - 1);
  }

  #setBit(bit: number, on: boolean): void {
    const word = this.#control[CONTROL.UNCACHEABLE]!;
    this.#control[CONTROL.UNCACHEABLE] = on ? word | bit : word & ~bit;
  }

  #dataLength(token: TokenRef): number {
    return this.keyLength(token) + this.ownerLength(token) + this.peerLength(token);
  }

  #firstFrom(token: TokenRef, { input, keyOffset, keyLength, hash }: Key): TokenRef {
    const table = this.#table;
    for (; token !== NO_TOKEN; token = table.next(token)) {
      if (table.word(token, WORD.HASH) !== hash || this.keyLength(token) !== keyLength) continue;
      const dataLength = this.#dataLength(token);
      if (table.equals(token, dataLength, 0, keyLength, input, keyOffset)) return token;
    }
    return NO_TOKEN;
  }

  #insert(operation: Operation, sinceUnixSec: number): TokenRef {
    const { input, keyOffset, keyLength, hash } = operation;
    const { tagOffset, tagLength, peerOffset, peerLength } = operation;
    const table = this.#table;
    const peerAt = keyLength + tagLength;
    const dataLength = peerAt + peerLength;
    const token = table.allocate(dataLength);
    if (token === NO_TOKEN) return NO_TOKEN;
    const lengths = keyLength | (tagLength << OWNER_SHIFT) | (peerLength << PEER_SHIFT);
    table.setWord(token, WORD.LENGTHS, lengths);
    table.setWord(token, WORD.SINCE_UNIX_SEC, sinceUnixSec);
    table.setWord(token, WORD.HASH, hash);
    table.write(token, dataLength, 0, keyLength, input, keyOffset);
    table.write(token, dataLength, keyLength, tagLength, input, tagOffset);
    table.write(token, dataLength, peerAt, peerLength, input, peerOffset);
    table.insert(token, hash);
    this.#control[CONTROL.UNCACHEABLE]! += 1;
    return token;
  }

  #setId(token: TokenRef, idLow: number, idHigh: number): void {
    this.#table.setWord(token, WORD.ID_LOW, idLow);
    this.#table.setWord(token, WORD.ID_HIGH, idHigh);
  }
}
