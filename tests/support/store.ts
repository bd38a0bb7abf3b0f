import { ByteRegion } from "../../store/base/bytes.ts";
import { Cache, MoveResult } from "../../store/cache.ts";
import { type Key, Operation, type StoreMode } from "../../store/operation.ts";
import { checkStore } from "../../store/check/check.ts";
import { deadlineSec, writeClock } from "../../store/clock.ts";
import { type ItemRef, NO_ITEM } from "../../store/memory/item.ts";
import { type LockLimits, MIB, type StoreOptions } from "../../store/limits.ts";
import { createSharedMemory, Memory } from "../../store/memory/memory.ts";
import { Outcome } from "../../store/outcome.ts";
import { highHalf, lowHalf, u64ToNumber } from "../../store/base/u64.ts";

export type ChangedOptions = Partial<Omit<StoreOptions, "lockLimits">> & {
  lockLimits?: Partial<LockLimits>;
};

/** Store options as the server's defaults make them, but reproducible. */
export function storeOptions(changed: ChangedOptions = {}): StoreOptions {
  return {
    memoryLimitBytes: 64 * MIB,
    itemSizeMaxBytes: MIB,
    evictions: true,
    casEnabled: true,
    growthFactor: 1.075,
    chunkSizeMin: 48,
    slabLayout: "leased",
    connectionsMax: 64,
    threads: 1,
    startedUnixSec: 1_700_000_000,
    firstId: 1000,
    hashSeed: Int32Array.of(12345, 67890),
    leaseEntries: 1000,
    tokenEntries: 1000,
    tokenPersistence: "volatile",
    leaseFlag: 0,
    leaseMask: 0,
    strictPrefixes: [],
    yrmcdsLocks: false,
    ...changed,
    lockLimits: {
      locksMax: 65_536,
      locksPerConnectionMax: 1024,
      memoryShareMax: 1 / 2,
      memorySharePerConnectionMax: 1 / 4,
      waitersPerLockMax: 1024,
      ...changed.lockLimits,
    },
  };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const VALUE_OFFSET = 300;

/** Moves a page as `slabs reassign` does. */
export function movePage(cache: Cache, source: number, target: number): MoveResult {
  const move = cache.movePage(source, target);
  while (move.result === MoveResult.MOVING) cache.continueMove(move);
  return move.result;
}

/** Does something under the store's mutex. */
export function held<Result>(cache: Cache, act: () => Result): Result {
  cache.enter();
  const result = act();
  cache.leave();
  return result;
}

/** A store; with `using`, it is checked at the end of the test. */
export class TestStore implements Disposable {
  readonly memory: Memory;
  readonly cache: Cache;
  readonly operation: Operation;
  readonly input = new ByteRegion(new ArrayBuffer(2 * MIB));

  /** @param made A store that is there already. */
  constructor(changed: ChangedOptions = {}, made?: { memory: Memory; cache: Cache }) {
    this.memory = made?.memory ?? new Memory(createSharedMemory(storeOptions(changed)));
    this.cache = made?.cache ?? Cache.format(this.memory);
    this.operation = new Operation(this.input);
  }

  /** Sets the clock, in milliseconds after the start. */
  clock(milliseconds: number): void {
    writeClock(this.memory, milliseconds);
    this.cache.enter();
    this.cache.leave();
  }

  store(
    mode: StoreMode,
    key: string,
    value: string | Uint8Array,
    fields: Partial<Operation> = {},
  ): Outcome {
    this.#prepare(key, fields);
    const bytes = typeof value === "string" ? encoder.encode(value) : value;
    this.input.bytes.set(bytes, VALUE_OFFSET);
    Object.assign(this.operation, { mode, valueOffset: VALUE_OFFSET, valueLength: bytes.length });
    // A long copy yields the mutex, which only its holder can.
    return held(this.cache, () => this.cache.store(this.operation));
  }

  /** Stores by reserve, pieces of `pieceLength` bytes, and commit. */
  storeInPieces(
    mode: StoreMode,
    key: string,
    value: Uint8Array,
    pieceLength: number,
    fields: Partial<Operation> = {},
  ): Outcome {
    this.#prepare(key, fields);
    this.input.bytes.set(value, VALUE_OFFSET);
    Object.assign(this.operation, { mode, valueLength: value.length });
    const refusal = this.cache.reserved.reserve(this.operation);
    if (refusal !== Outcome.OK) return refusal;
    const item = this.operation.reserved;
    for (let at = 0; at < value.length; at += pieceLength) {
      const length = Math.min(pieceLength, value.length - at);
      if (!this.cache.reserved.grow(item, at + length)) {
        return this.cache.reserved.refuse(this.operation);
      }
      this.cache.reserved.fill(item, at, this.input, VALUE_OFFSET + at, length);
    }
    return held(this.cache, () => this.cache.reserved.commit(this.operation));
  }

  remove(key: string, fields: Partial<Operation> = {}): Outcome {
    this.#prepare(key, fields);
    return this.cache.remove(this.operation);
  }

  touch(key: string, deadlineSec: number, fields: Partial<Operation> = {}): Outcome {
    this.#prepare(key, { deadlineSec, ...fields });
    return this.cache.touch(this.operation);
  }

  add(key: string, delta: number, increment: boolean, fields: Partial<Operation> = {}): Outcome {
    const deltaHigh = Math.floor(delta / 2 ** 32) | 0;
    this.#prepare(key, { deltaLow: delta | 0, deltaHigh, ...fields });
    return this.cache.incrDecr(this.operation, increment);
  }

  lock(key: string, owner: number, fields: Partial<Operation> = {}): Outcome {
    this.#prepare(key, { owner, ...fields });
    return this.cache.lock(this.operation);
  }

  lockAndGet(key: string, owner: number, fields: Partial<Operation> = {}): Outcome {
    this.#prepare(key, { owner, ...fields });
    return this.cache.lockAndGet(this.operation, fields.deadlineSec !== undefined);
  }

  unlock(key: string, owner: number): Outcome {
    this.#prepare(key, { owner });
    return this.cache.unlock(this.operation);
  }

  /** getss: `hit`, or the lease's id and its remaining time. */
  getss(key: string, seconds: number): "hit" | "none" | { id: number; remain: number } {
    this.#prepare(key, { deadlineSec: deadlineSec(this.memory, seconds) });
    this.cache.prefetch.addHash(this.operation);
    const outcome = this.cache.getOrLease(this.operation);
    if (outcome === Outcome.OK) return "hit";
    if (outcome === Outcome.NO_MEMORY) return "none";
    return { id: this.changedId(), remain: this.operation.remainSec };
  }

  deletess(key: string, seconds: number, fields: Partial<Operation> = {}): Outcome {
    this.#prepare(key, { deadlineSec: deadlineSec(this.memory, seconds), ...fields });
    return this.cache.removeAndLease(this.operation);
  }

  /** token get: the token's id, or the reason for a refusal. */
  token(key: string, owner = "", fields: Partial<Operation> = {}): number | Outcome {
    const tagOffset = encoder.encode(key).length;
    const tagLength = encoder.encode(owner).length;
    const peerOffset = tagOffset + tagLength;
    this.input.bytes.set(encoder.encode(`${owner}peer`), tagOffset);
    this.#prepare(key, { tagOffset, tagLength, peerOffset, peerLength: 4, ...fields });
    const outcome = this.cache.tokens.get(this.operation);
    return outcome === Outcome.OK ? this.changedId() : outcome;
  }

  releaseToken(key: string, id: number): Outcome {
    this.#prepare(key, { compareLow: lowHalf(id), compareHigh: highHalf(id) });
    return this.cache.tokens.release(this.operation);
  }

  /** token drop: returns the number of dropped tokens. @param id Left out: all tokens of the key. */
  dropTokens(key: string, id?: number): number {
    const compare = id !== undefined;
    this.#prepare(key, { compare, compareLow: lowHalf(id ?? 0), compareHigh: highHalf(id ?? 0) });
    return this.cache.tokens.drop(this.operation);
  }

  /** The id that the last operation gave. */
  changedId(): number {
    return u64ToNumber(this.operation.idLow, this.operation.idHigh);
  }

  item(key: string): ItemRef {
    this.#prepare(key, {});
    this.cache.prefetch.addHash(this.operation);
    return this.cache.get(this.operation);
  }

  bytes(key: string): Uint8Array | undefined {
    const item = this.item(key);
    if (item === NO_ITEM) return undefined;
    const length = this.cache.valueLength(item);
    const to = new ByteRegion(new ArrayBuffer(length));
    this.cache.copyValue(item, 0, length, to, 0);
    return to.bytes;
  }

  get(key: string): string | undefined {
    const bytes = this.bytes(key);
    return bytes && decoder.decode(bytes);
  }

  id(key: string): number {
    const item = this.item(key);
    return u64ToNumber(this.cache.idLow(item), this.cache.idHigh(item));
  }

  check(): void {
    checkStore(this.memory);
  }

  [Symbol.dispose](): void {
    this.check();
  }

  /** An operation on the key, for what has no method here. Good until the next call of a method. */
  operationOn(key: string, fields: Partial<Operation>): Operation {
    this.#prepare(key, fields);
    return this.operation;
  }

  #prepare(key: string, fields: Partial<Operation>): void {
    const bytes = encoder.encode(key);
    this.input.bytes.set(bytes, 0);
    Object.assign(this.operation, new Operation(this.input), {
      keyOffset: 0,
      keyLength: bytes.length,
      ...fields,
    });
  }
}

/** The key at the start of a region. */
export function keyIn(cache: Cache, input: ByteRegion, keyLength: number): Key {
  const hash = cache.links.index.hash(input, 0, keyLength);
  return { input, keyOffset: 0, keyLength, hash };
}
