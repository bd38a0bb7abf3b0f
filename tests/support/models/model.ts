import type { Part } from "../sessions/transcript.ts";

/** One command, before it is written down. A cas id is named by the hole that a gets learned it in. */
export type Operation =
  | {
    name: "set" | "add" | "replace" | "append" | "prepend" | "cas";
    key: string;
    flags: number;
    exptime: number;
    value: string;
    id?: string;
  }
  | { name: "get" | "gets"; keys: string[] }
  | { name: "gat" | "gats"; exptime: number; keys: string[] }
  | { name: "touch"; key: string; exptime: number }
  | { name: "delete"; key: string }
  | { name: "incr" | "decr"; key: string; delta: bigint }
  | { name: "flush_all"; delaySec: number }
  | { name: "lock"; key: string; fence: boolean }
  | { name: "unlock"; key: string }
  | { name: "unlock_all" }
  | { name: "token get"; key: string; owner: string }
  | { name: "token release"; key: string; id: string };

export type StoreOperation = Extract<Operation, { value: string }>;

interface ModelItem {
  value: string;
  flags: number;
  /** The item lives while the clock is below it. */
  deadlineSec: number;
  /** Numbers changes: stands for the cas id. */
  version: number;
  /** A flush has met it while it was locked: it dies when it is unlocked. */
  flushed: boolean;
  /** Holder of its lock, or NOBODY; and the version that stands for the fencing number. */
  owner: number;
  fence: number;
}

export const NOBODY = 0;

const RELATIVE_SEC_MAX = 60 * 60 * 24 * 30;
const U64 = 1n << 64n;

/**
 * The bytes that memcached counts for an item beside key and value: header, terminator, CR LF, cas id; and the
 * flags if there are any.
 */
const ITEM_BYTES = 48 + 1 + 2 + 8;
const FLAGS_BYTES = 4;

/** Limits on locks. */
interface LockLimits {
  readonly locksMax: number;
  readonly locksPerConnectionMax: number;
}

/** The cache as a Map with unlimited memory: the effect of every command. */
export class Model {
  nowSec: number;
  readonly #startedUnixSec: number;
  readonly #itemBytesMax: number;
  readonly #lockLimits: LockLimits;
  readonly #items = new Map<string, ModelItem>();
  /** Versions of the update tokens of a key, by the owner's tag. */
  readonly #tokens = new Map<string, Map<string, number>>();
  #flushAtSec = Infinity;
  #version = 0;

  /** @param nowSec The clock, in seconds; it says 0 at `startedUnixSec`. */
  constructor(
    nowSec: number,
    startedUnixSec: number,
    itemBytesMax: number,
    lockLimits: LockLimits,
  ) {
    this.nowSec = nowSec;
    this.#startedUnixSec = startedUnixSec;
    this.#itemBytesMax = itemBytesMax;
    this.#lockLimits = lockLimits;
  }

  advance(seconds: number): void {
    const hiding = this.#isHiding();
    this.nowSec += seconds;
    if (!hiding && this.nowSec < this.#flushAtSec) return;
    this.#clear();
    if (!this.#isHiding()) this.#flushAtSec = Infinity;
  }

  has(key: string): boolean {
    return this.#live(key) !== undefined;
  }

  isLocked(key: string): boolean {
    return (this.#live(key)?.owner ?? NOBODY) !== NOBODY;
  }

  /** An item that the real cache has given up for lack of memory. */
  forget(key: string): void {
    this.#items.delete(key);
  }

  /**
   * The reply, with holes for cas ids, fencing numbers and update tokens.
   *
   * @param owner The connection that asks.
   */
  execute(operation: Operation, owner: number): Part[] {
    switch (operation.name) {
      case "get":
      case "gets":
        return this.#read(operation.keys, operation.name === "gets");
      case "gat":
      case "gats":
        return operation.keys.some((key) => this.#isLockedByOther(key, owner))
          ? ["LOCKED\r\n"]
          : this.#read(operation.keys, operation.name === "gats", operation.exptime);
      case "touch": {
        const item = this.#live(operation.key);
        if (item === undefined) return ["NOT_FOUND\r\n"];
        if (this.#isLockedByOther(operation.key, owner)) return ["LOCKED\r\n"];
        item.deadlineSec = this.#deadline(operation.exptime);
        return ["TOUCHED\r\n"];
      }
      case "delete":
        if (this.#isLockedByOther(operation.key, owner)) return ["LOCKED\r\n"];
        return this.#live(operation.key) && this.#items.delete(operation.key)
          ? ["DELETED\r\n"]
          : ["NOT_FOUND\r\n"];
      case "incr":
      case "decr":
        if (this.#isLockedByOther(operation.key, owner)) return ["LOCKED\r\n"];
        return [this.#add(operation.key, operation.name === "incr", operation.delta) + "\r\n"];
      case "flush_all":
        return this.#flush(operation.delaySec);
      case "lock":
        return this.#lock(operation.key, operation.fence, owner);
      case "unlock":
        return [this.#unlock(operation.key, owner) + "\r\n"];
      case "unlock_all":
        this.release(owner);
        return ["OK\r\n"];
      case "token get":
        return this.#getToken(operation.key, operation.owner, owner);
      case "token release":
        return [this.#releaseToken(operation.key, operation.id) + "\r\n"];
      default:
        return [this.#store(operation, owner) + "\r\n"];
    }
  }

  /** Frees all that a connection has locked, which may be gone. */
  release(owner: number): void {
    for (const key of this.#lockedBy(owner)) this.#unlock(key, owner);
  }

  /** In the second of a flush that was announced, what is stored is hidden too. */
  #isHiding(): boolean {
    return this.nowSec === this.#flushAtSec;
  }

  /** Returns the item unless it has expired. A locked item does not expire. */
  #live(key: string): ModelItem | undefined {
    const item = this.#items.get(key);
    if (item === undefined) return undefined;
    return item.owner !== NOBODY || !this.#isDead(item) ? item : undefined;
  }

  #isDead(item: ModelItem): boolean {
    return item.flushed || this.#isHiding() || this.nowSec >= item.deadlineSec;
  }

  #isLockedByOther(key: string, owner: number): boolean {
    return this.isLocked(key) && this.#live(key)!.owner !== owner;
  }

  /** Returns the locked keys, of all connections or of one. */
  #lockedBy(owner?: number): string[] {
    const all = [...this.#items].filter(([, item]) => item.owner !== NOBODY);
    return all.filter(([, item]) => item.owner === (owner ?? item.owner)).map(([key]) => key);
  }

  #lock(key: string, fence: boolean, owner: number): Part[] {
    const item = this.#live(key);
    if (item === undefined) return ["NOT_FOUND\r\n"];
    if (this.#isLockedByOther(key, owner)) return ["LOCKED\r\n"];
    if (item.owner === NOBODY) {
      const { locksMax, locksPerConnectionMax } = this.#lockLimits;
      if (
        this.#lockedBy().length >= locksMax || this.#lockedBy(owner).length >= locksPerConnectionMax
      ) return ["SERVER_ERROR too many locks\r\n"];
      item.owner = owner;
      item.fence = ++this.#version;
    }
    return fence ? ["OK ", { hole: holeOf(item.fence) }, "\r\n"] : ["OK\r\n"];
  }

  #unlock(key: string, owner: number): string {
    const item = this.#live(key);
    if (item?.owner !== owner) return "CLIENT_ERROR object is not locked or not found";
    item.owner = NOBODY;
    if (this.#isDead(item)) this.#items.delete(key);
    return "OK";
  }

  /** Flushes. A locked item dies when it is unlocked. */
  #clear(): void {
    for (const [key, item] of this.#items) {
      if (item.owner === NOBODY) this.#items.delete(key);
      else item.flushed = true;
    }
  }

  /** An item is changed: no flush so far has met it. */
  #renew(item: ModelItem): void {
    item.version = ++this.#version;
    item.flushed = false;
  }

  #deadline(exptime: number): number {
    if (exptime === 0) return Infinity;
    if (exptime < 0) return 0;
    return exptime <= RELATIVE_SEC_MAX ? this.nowSec + exptime : exptime - this.#startedUnixSec;
  }

  #read(keys: readonly string[], withId: boolean, exptime?: number): Part[] {
    const parts: Part[] = [];
    let text = "";
    for (const key of keys) {
      const item = this.#live(key);
      if (item === undefined) continue;
      if (exptime !== undefined) item.deadlineSec = this.#deadline(exptime);
      text += `VALUE ${key} ${item.flags} ${item.value.length}`;
      if (withId) {
        parts.push(text + " ", { hole: holeOf(item.version) });
        text = "";
      }
      text += `\r\n${item.value}\r\n`;
    }
    return [...parts, text + "END\r\n"];
  }

  #store({ name, key, flags, exptime, value, id }: StoreOperation, owner: number): string {
    const old = this.#live(key);
    const locked = this.#isLockedByOther(key, owner);
    if (!this.#fits(key, value, flags)) {
      if (name === "set" && !locked) this.#items.delete(key);
      return "SERVER_ERROR object too large for cache";
    }
    if (this.#tokens.has(key)) return name === "cas" ? "NOT_FOUND" : "NOT_STORED";
    if (locked) return "LOCKED";
    if (name === "cas") {
      if (old === undefined) return "NOT_FOUND";
      if (id !== holeOf(old.version)) return "EXISTS";
    } else if (name === "add") {
      if (old !== undefined) return "NOT_STORED";
    } else if (name !== "set") {
      if (old === undefined) return "NOT_STORED";
      if (name !== "replace") return this.#extend(key, old, value, name === "append");
    }
    this.#items.set(key, {
      value,
      flags,
      deadlineSec: this.#deadline(exptime),
      version: ++this.#version,
      flushed: false,
      owner: old?.owner ?? NOBODY,
      fence: old?.fence ?? 0,
    });
    return "STORED";
  }

  #extend(key: string, item: ModelItem, value: string, behind: boolean): string {
    const joined = behind ? item.value + value : value + item.value;
    if (!this.#fits(key, joined, item.flags)) return "NOT_STORED";
    item.value = joined;
    this.#renew(item);
    return "STORED";
  }

  #fits(key: string, value: string, flags: number): boolean {
    const bytes = ITEM_BYTES + key.length + value.length + (flags === 0 ? 0 : FLAGS_BYTES);
    return bytes <= this.#itemBytesMax;
  }

  #add(key: string, increment: boolean, delta: bigint): string {
    const item = this.#live(key);
    if (item === undefined) return "NOT_FOUND";
    const [, digits] = /^[ \t-\r]*\+?(\d+)(?:[ \t-\r\0]|$)/.exec(item.value) ?? [];
    if (digits === undefined || BigInt(digits) >= U64) {
      return "CLIENT_ERROR cannot increment or decrement non-numeric value";
    }
    const old = BigInt(digits);
    const result = increment ? (old + delta) % U64 : old > delta ? old - delta : 0n;
    item.value = String(result).padEnd(item.value.length);
    this.#renew(item);
    return String(result);
  }

  #getToken(key: string, tag: string, owner: number): Part[] {
    if (this.#isLockedByOther(key, owner)) return ["LOCKED\r\n"];
    const tokens = this.#tokens.get(key) ?? new Map<string, number>();
    let version = tokens.get(tag);
    if (version === undefined) {
      version = ++this.#version;
      this.#tokens.set(key, tokens.set(tag, version));
      this.#items.delete(key);
    }
    return ["TOKEN ", { hole: holeOf(version) }, "\r\n"];
  }

  #releaseToken(key: string, id: string): string {
    const tokens = this.#tokens.get(key) ?? new Map<string, number>();
    const tag = [...tokens].find(([, version]) => holeOf(version) === id)?.[0];
    if (tag === undefined) {
      this.#items.delete(key);
      return "NOT_FOUND";
    }
    tokens.delete(tag);
    if (tokens.size === 0) this.#tokens.delete(key);
    return "OK";
  }

  #flush(delaySec: number): Part[] {
    if (delaySec <= 0 || this.#isHiding()) this.#clear();
    this.#flushAtSec = delaySec <= 0 ? Infinity : this.nowSec + delaySec - 1;
    return ["OK\r\n"];
  }
}

/** The hole that stands for the cas id of a change, the fencing number of a lock, or the id of an update token. */
function holeOf(version: number): string {
  return `id${version}`;
}

/** The operation as a client writes it. */
export function requestOf(operation: Operation): Part[] {
  switch (operation.name) {
    case "get":
    case "gets":
      return [`${operation.name} ${operation.keys.join(" ")}\r\n`];
    case "gat":
    case "gats":
      return [`${operation.name} ${operation.exptime} ${operation.keys.join(" ")}\r\n`];
    case "touch":
      return [`touch ${operation.key} ${operation.exptime}\r\n`];
    case "delete":
      return [`delete ${operation.key}\r\n`];
    case "incr":
    case "decr":
      return [`${operation.name} ${operation.key} ${operation.delta}\r\n`];
    case "flush_all":
      return [`flush_all ${operation.delaySec}\r\n`];
    case "lock":
      return [`lock ${operation.key}${operation.fence ? " fence" : ""}\r\n`];
    case "unlock":
      return [`unlock ${operation.key}\r\n`];
    case "unlock_all":
      return ["unlock_all\r\n"];
    case "token get":
      return [`token get ${operation.key} ${operation.owner}\r\n`];
    case "token release":
      return [`token release ${operation.key} `, { hole: operation.id }, "\r\n"];
    default: {
      const { name, key, flags, exptime, value, id } = operation;
      const line = `${name} ${key} ${flags} ${exptime} ${value.length}`;
      const end = `\r\n${value}\r\n`;
      return id === undefined ? [line + end] : [`${line} `, { hole: id }, end];
    }
  }
}
