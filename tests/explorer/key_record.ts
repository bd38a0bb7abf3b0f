import { type ItemRef, NO_ITEM, STATE } from "../../store/memory/item.ts";
import { type LeaseRef, NO_LEASE } from "../../store/claims/leases.ts";
import { NO_TOKEN, UpdateTokens } from "../../store/claims/update_tokens.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import type { Key } from "../../store/operation.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { u64ToNumber } from "../../store/base/u64.ts";
import { TOKEN_RECORD_BYTES_MAX } from "../../store/memory/token_layout.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import { bytesOf, textOf } from "../support/sessions/side.ts";

/** The key that clients ask for. */
export const KEY = "k";

export interface KeyToken {
  readonly id: number;
  readonly owner: string;
  /** The journal does not have it yet. */
  readonly isPending: boolean;
}

/** The store's record of the key. Times in seconds of the store's clock; 0: never or none. */
export interface KeyRecord {
  readonly item: ItemRef;
  /** An expired or flushed item is still in memory. It counts as absent. */
  readonly hasDeadItem: boolean;
  readonly value: string;
  readonly isStub: boolean;
  readonly isStale: boolean;
  readonly isWon: boolean;
  readonly isLocked: boolean;
  /** The connection that holds the lock; 0: none. */
  readonly lockOwner: number;
  readonly id: number;
  readonly deadlineSec: number;
  readonly lease: LeaseRef;
  readonly isHeld: boolean;
  readonly leaseId: number;
  /** The deadline of a lease that is held. */
  readonly leaseUntilSec: number;
  readonly dirtyUntilSec: number;
  readonly tokens: readonly KeyToken[];
  readonly isQuarantined: boolean;
}

const NO_TOKENS: readonly KeyToken[] = [];

/** Reads the key's record from a store. */
export class KeyReader {
  readonly key: ByteRegion = new ByteRegion(bytesOf(KEY).buffer);
  readonly tokens: UpdateTokens;
  readonly #thread: ThreadContext;
  readonly #value = new ByteRegion(new ArrayBuffer(8));
  readonly #tokenData = new ByteRegion(new ArrayBuffer(TOKEN_RECORD_BYTES_MAX));

  constructor(thread: ThreadContext) {
    this.#thread = thread;
    this.tokens = new UpdateTokens(thread.memory);
  }

  /** Reads without removing what has expired. */
  read(): KeyRecord {
    const { cache, memory } = this.#thread;
    const { items, links, leases, locks } = cache;
    cache.enter();
    const hash = links.index.hash(this.key, 0, KEY.length);
    const found = links.index.find(this.#keyOf(hash));
    const hasDeadItem = found !== NO_ITEM && links.isDead(found);
    const item = hasDeadItem ? NO_ITEM : found;
    const lease = leases.find(this.#keyOf(hash));
    const isThere = item !== NO_ITEM;
    const state = isThere ? items.state(item) : 0;
    const isLocked = (state & STATE.LOCKED) !== 0;
    const isHeld = lease !== NO_LEASE && leases.isHeld(lease);
    const record: KeyRecord = {
      item,
      hasDeadItem,
      value: isThere ? this.#valueText(item) : "",
      isStub: (state & STATE.STUB) !== 0,
      isStale: (state & STATE.STALE) !== 0,
      isWon: (state & STATE.WON) !== 0,
      isLocked,
      lockOwner: isLocked ? locks.ownerOf(locks.rowOf(item)) : 0,
      id: isThere ? u64ToNumber(cache.idLow(item), cache.idHigh(item)) : 0,
      deadlineSec: isThere ? cache.deadlineSec(item) : 0,
      lease,
      isHeld,
      leaseId: isHeld ? u64ToNumber(leases.idLow(lease), leases.idHigh(lease)) : 0,
      leaseUntilSec: isHeld ? memory.control[CONTROL.NOW_SEC]! + leases.remainSec(lease) : 0,
      dirtyUntilSec: lease === NO_LEASE ? 0 : leases.dirtyUntilSec(lease),
      tokens: this.#keyTokens(hash),
      isQuarantined: this.tokens.isQuarantined,
    };
    cache.leave();
    return record;
  }

  /** Reads the version at the start of a value and ignores the padding. */
  #valueText(item: ItemRef): string {
    const { cache } = this.#thread;
    const length = Math.min(cache.valueLength(item), 2);
    cache.copyValue(item, 0, length, this.#value, 0);
    return textOf(this.#value.bytes.subarray(0, length)).replace("x", "");
  }

  #keyOf(hash: number): Key {
    return { input: this.key, keyOffset: 0, keyLength: KEY.length, hash };
  }

  #keyTokens(hash: number): readonly KeyToken[] {
    const { tokens } = this;
    if (!tokens.isAnyOut) return NO_TOKENS;
    const found: KeyToken[] = [];
    const key = this.#keyOf(hash);
    let token = tokens.first(key);
    for (; token !== NO_TOKEN; token = tokens.next(token, key)) {
      tokens.copyData(token, this.#tokenData, 0);
      const ownerAt = tokens.keyLength(token);
      const owner = this.#tokenData.bytes.subarray(ownerAt, ownerAt + tokens.ownerLength(token));
      found.push({
        id: u64ToNumber(tokens.idLow(token), tokens.idHigh(token)),
        owner: textOf(owner),
        isPending: tokens.isPending(token),
      });
    }
    return found.sort((a, b) => a.id - b.id);
  }
}
