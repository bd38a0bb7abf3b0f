import { assert } from "../../../store/base/assert.ts";
import type { NotedCaches, NotedState } from "../../databases/base/backend.ts";
import { CacheError, type Flow, step } from "./steps.ts";

/** A cache with its share of the keys. */
export interface Weighted<Cache> {
  /** `host:port` */
  readonly name: string;
  readonly weight: number;
  readonly cache: Cache;
}

/**
 * The part that a cache has in the list:
 *
 *   state     writes delete in it   reads may be kept in it
 *   joining   yes                   not yet: the database has not noted it
 *   listed    yes                   yes
 *   leaving   yes                   no
 */
export type MemberState = "joining" | "listed" | "leaving";

/** A cache in which writes delete. */
export interface Member<Cache> extends Weighted<Cache> {
  readonly state: MemberState;
}

/** How a change of the list ended. */
export type ListChange =
  | {
    readonly kind: "changed";
    /** Caches that could not be emptied, with the reason: they have not joined, or have left with their values. */
    readonly failed: ReadonlyMap<string, string>;
  }
  /** The origin with this epoch has taken over; nothing more is changed. */
  | { readonly kind: "fenced"; readonly epoch: number };

/**
 * The caches that may hold rows. Every write deletes its key in all members; reads are kept in listed members only.
 *
 * A cache that is not a member misses writes, so it must not hold values when it joins, and no client may read them
 * after it has left. Quarantine does both: it removes values and leases, and refuses fills until it ends.
 *
 *   join    quarantine on · member · quarantine off · note as listed · readable
 *   leave   not readable · note as out · quarantine on · no member · forget
 *
 * The database notes every cache that may hold values, with the epoch of the list. An origin that takes over reads the
 * notes, whatever its own list: what is noted as listed has missed no write; what is noted as out may have.
 *
 * No socket, no clock, no database: a change yields its requests as steps, and one change runs at a time.
 */
export class CacheList<Cache> {
  readonly #reach: (name: string) => Cache;
  #members: ReadonlyMap<string, Member<Cache>> = new Map();
  #all: readonly Cache[] = [];
  /** The database's record; null: unknown, because it did not reply. */
  #noted: ReadonlyMap<string, NotedState> | null = new Map();
  #wanted: ReadonlyMap<string, NotedState> = new Map();
  #epoch = 0;

  /** @param reach Returns the cache with a name, for caches that an earlier origin has noted. */
  constructor(reach: (name: string) => Cache) {
    this.#reach = reach;
  }

  /** Grows with every change of the list, also over restarts and takeovers. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Every write deletes its key in all of them. A write takes the list after its token. */
  get all(): readonly Cache[] {
    return this.#all;
  }

  get members(): Iterable<Member<Cache>> {
    return this.#members.values();
  }

  /** Whether a read may be kept in the cache. */
  isReadable(cache: Cache): boolean {
    for (const member of this.#members.values()) {
      if (member.cache === cache) return member.state === "listed";
    }
    return false;
  }

  /** Returns the member with this name. */
  named(name: string): Member<Cache> | undefined {
    return this.#members.get(name);
  }

  /** The caches that may hold values, as they shall be noted. */
  get wanted(): NotedCaches["caches"] {
    return this.#wanted;
  }

  /** Names of caches that are no members and may hold values. */
  get outside(): readonly string[] {
    return [...this.#wanted.keys()].filter((name) => !this.#members.has(name));
  }

  /**
   * Begins with the notes of the earlier origin, after the takeover: its caches have missed no write, so they stay
   * members until `change` takes them off.
   */
  adopt({ epoch, caches }: NotedCaches, target: readonly Weighted<Cache>[]): void {
    this.#epoch = epoch;
    this.#noted = this.#wanted = caches;
    const members = new Map<string, Member<Cache>>();
    for (const [name, state] of caches) {
      if (state === "out") continue;
      const own = target.find((each) => each.name === name);
      members.set(
        name,
        own === undefined
          ? { name, weight: 1, cache: this.#reach(name), state: "leaving" }
          : { ...own, state: "listed" },
      );
    }
    this.#setMembers(members);
  }

  /** Whether `change` has something to do. */
  needsChange(target: readonly Weighted<Cache>[]): boolean {
    return target.some(({ name }) => this.#members.get(name)?.state !== "listed") ||
      [...this.#wanted.keys()].some((name) => target.every((each) => each.name !== name));
  }

  /**
   * Makes these caches the list. To be repeated while caches could not be reached.
   *
   * @param originEpoch The epoch in which this origin took over.
   * @throws The database's error; the list is safe, and the change to be repeated.
   */
  *change(target: readonly Weighted<Cache>[], originEpoch: number): Flow<Cache, ListChange> {
    const failed = new Map<string, string>();
    const targets = new Map(target.map((each) => [each.name, each]));
    const joining = this.#begin(targets);
    // Noted before writes pass a cache by: a crash now must not make the next origin trust it.
    let fencedBy = yield* this.#note(originEpoch);
    if (fencedBy !== 0) return { kind: "fenced", epoch: fencedBy };
    const outside = [...this.#wanted].filter(([, state]) => state === "out");
    for (const name of new Set([...outside.map(([name]) => name), ...joining.keys()])) {
      const cache = targets.get(name)?.cache ?? this.#members.get(name)?.cache ?? this.#reach(name);
      const error = yield* this.#empty(name, cache, joining.get(name));
      if (error !== undefined) failed.set(name, error);
    }
    fencedBy = yield* this.#note(originEpoch);
    if (fencedBy !== 0) return { kind: "fenced", epoch: fencedBy };
    const members = new Map<string, Member<Cache>>();
    for (const { name } of target) {
      const member = this.#members.get(name);
      if (member !== undefined) members.set(name, { ...member, state: "listed" });
    }
    this.#setMembers(members);
    for (const name of members.keys()) {
      assert(this.#wanted.get(name) === "listed", "a cache is readable when it is noted as listed");
    }
    return { kind: "changed", failed };
  }

  /**
   * Forgets a cache that has left with its values: its operator knows that no client reads it any more.
   *
   * @returns False if it is a member, or was forgotten before.
   * @throws The database's error.
   */
  *forget(name: string, originEpoch: number): Flow<Cache, boolean> {
    if (this.#members.has(name) || !this.#wanted.has(name)) return false;
    assert(this.#wanted.get(name) === "out", "a cache that is listed is a member");
    this.#want(name, undefined);
    return (yield* this.#note(originEpoch)) === 0;
  }

  /** Ends reads of members that are to leave. @returns The caches that are to join. */
  #begin(targets: ReadonlyMap<string, Weighted<Cache>>): Map<string, Weighted<Cache>> {
    const wanted = new Map(this.#wanted);
    const members = new Map<string, Member<Cache>>();
    for (const [name, member] of this.#members) {
      const own = targets.get(name);
      if (own === undefined) {
        members.set(name, { ...member, state: "leaving" });
        wanted.set(name, "out");
      } else {
        members.set(name, { ...own, cache: member.cache, state: member.state });
      }
    }
    const joining = new Map(targets);
    for (const [name, { state }] of members) if (state === "listed") joining.delete(name);
    this.#wanted = wanted;
    this.#setMembers(members);
    return joining;
  }

  /**
   * Empties a cache that has missed writes, or will. It joins if it is to join, and else is no member afterwards, even
   * if it could not be reached.
   *
   * @returns The reason why it could not be emptied.
   */
  *#empty(
    name: string,
    cache: Cache,
    joining: Weighted<Cache> | undefined,
  ): Flow<Cache, string | undefined> {
    try {
      yield* step({ kind: "quarantine", cache, on: true });
      if (joining === undefined) {
        this.#setMember(name, undefined);
        this.#want(name, undefined);
        return undefined;
      }
      this.#setMember(name, { ...joining, cache, state: "joining" });
      yield* step({ kind: "quarantine", cache, on: false });
      this.#want(name, "listed");
      return undefined;
    } catch (error) {
      if (!(error instanceof CacheError)) throw error;
      this.#setMember(name, undefined);
      return error.message;
    }
  }

  /** @returns The epoch of the origin that has taken over; 0: none has. */
  *#note(originEpoch: number): Flow<Cache, number> {
    const caches = this.#wanted;
    if (this.#noted !== null && isSame(this.#noted, caches)) return 0;
    this.#noted = null;
    const note = yield* step({ kind: "noteCaches", caches, epoch: originEpoch });
    if (note.kind === "fenced") return note.epoch;
    this.#noted = caches;
    assert(note.epoch >= this.#epoch, "the epoch of the list does not go back");
    this.#epoch = note.epoch;
    return 0;
  }

  #want(name: string, state: NotedState | undefined): void {
    this.#wanted = changed(this.#wanted, name, state);
  }

  #setMember(name: string, member: Member<Cache> | undefined): void {
    this.#setMembers(changed(this.#members, name, member));
  }

  #setMembers(members: ReadonlyMap<string, Member<Cache>>): void {
    this.#members = members;
    this.#all = [...members.values()].map(({ cache }) => cache);
    assert(new Set(this.#all).size === this.#all.length, "a cache is a member once");
  }
}

/** Returns a copy in which the key has this value, or none. */
function changed<Value>(
  map: ReadonlyMap<string, Value>,
  key: string,
  value: Value | undefined,
): ReadonlyMap<string, Value> {
  const copy = new Map(map);
  if (value === undefined) copy.delete(key);
  else copy.set(key, value);
  return copy;
}

function isSame<Value>(a: ReadonlyMap<string, Value>, b: ReadonlyMap<string, Value>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}
