import { assertNotEquals } from "@std/assert";
import { ItemLinks } from "../../store/items/item_links.ts";
import { type ItemRef, KEY_LENGTH_MASK, NO_ITEM, STATE, WORD } from "../../store/memory/item.ts";
import { CONTROL, Memory } from "../../store/memory/memory.ts";

/** STATE bits that a reader without the mutex uses. */
const VISIBLE = KEY_LENGTH_MASK | STATE.HAS_FLAGS | STATE.KEY_BINARY | STATE.STALE | STATE.WON |
  STATE.LONG_VALUE;

/** The items that readers can reach, at one moment. */
interface LookResult {
  /** The chains of each group of buckets, and what decides who is dead. */
  readonly groups: ReadonlyMap<number, string>;
  /** Each key's group, and its item without the place. */
  readonly keys: ReadonlyMap<string, { readonly group: number; readonly content: string }>;
  readonly versions: Int32Array;
  readonly flush: string;
}

/**
 * Watches the versions of a store whose one thread executes commands, and compares what readers without the mutex can
 * reach before and after each change.
 *
 * A writer is right if, while a group's version is even, nothing in the group changes, and if each key looks as before
 * the command or as after it whenever its group's version is even.
 */
export class VersionAudit {
  /** Rules that were broken. */
  readonly faults: string[] = [];
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  #last: LookResult;
  /** How often each key has changed its looks in the command in progress. */
  readonly #changes = new Map<string, number>();

  /** @param watched The memory of the thread that executes commands. */
  constructor(watched: Memory) {
    this.#memory = new Memory(watched.shared);
    this.#links = new ItemLinks(this.#memory);
    this.#last = this.#look();
    const { versions } = watched;
    for (const name of ["begin", "end", "beginAll", "endAll"] as const) {
      const change = versions[name].bind(versions) as (hash: number) => number;
      Object.defineProperty(versions, name, {
        value: (hash: number): number => {
          this.#compare(name);
          const begun = change(hash);
          this.#compare(name);
          return begun;
        },
      });
    }
  }

  /** The command has ended. */
  endCommand(name: string): void {
    const before = this.faults.length;
    this.#compare("the end");
    for (const [key, count] of this.#changes) {
      if (count > 1) this.faults.push(`${key} changed ${count} times`);
    }
    this.#changes.clear();
    const { words } = this.#memory.versions;
    if (words.some((version) => (version & 1) !== 0)) this.faults.push("a version is odd");
    for (let at = before; at < this.faults.length; at++) {
      this.faults[at] = `${name}: ${this.faults[at]}`;
    }
  }

  #compare(moment: string): void {
    const { words } = this.#memory.versions;
    const last = this.#last;
    const now = this.#look();
    const isEven = (group: number): boolean => (words[group]! & 1) === 0;
    for (const group of new Set([...last.groups.keys(), ...now.groups.keys()])) {
      const same = last.groups.get(group) === now.groups.get(group) && last.flush === now.flush;
      if (!same && isEven(group) && words[group] === last.versions[group]) {
        this.faults.push(`group ${group} changed between versions, before ${moment}`);
      }
    }
    for (const key of new Set([...last.keys.keys(), ...now.keys.keys()])) {
      const { group } = (last.keys.get(key) ?? now.keys.get(key))!;
      if (isEven(group) && last.keys.get(key)?.content !== now.keys.get(key)?.content) {
        this.#changes.set(key, (this.#changes.get(key) ?? 0) + 1);
      }
    }
    this.#last = this.#keepOdd(now, isEven);
  }

  /** Groups in the middle of a change do not count. */
  #keepOdd(now: LookResult, isEven: (group: number) => boolean): LookResult {
    const last = this.#last;
    const groups = new Map([...now.groups].filter(([group]) => isEven(group)));
    for (const [group, text] of last.groups) if (!isEven(group)) groups.set(group, text);
    const keys = new Map([...now.keys].filter(([, { group }]) => isEven(group)));
    for (const [key, place] of last.keys) if (!isEven(place.group)) keys.set(key, place);
    const versions = now.versions.map((version, group) =>
      isEven(group) ? version : last.versions[group]!
    );
    return { groups, keys, versions, flush: now.flush };
  }

  #look(): LookResult {
    const { control, versions } = this.#memory;
    const { index } = this.#links;
    const groups = new Map<number, string>();
    const keys = new Map<string, { group: number; content: string }>();
    for (let bucket = 0; bucket < control[CONTROL.HASH_BUCKETS]!; bucket++) {
      const group = bucket & versions.mask;
      for (let item = index.head(bucket); item !== NO_ITEM;) {
        const next = this.#links.items.word(item, WORD.HASH_NEXT);
        const content = this.#contentOf(item);
        const text = `${groups.get(group) ?? ""} ${bucket}:${item}:${next}:${content}`;
        groups.set(group, text);
        // A dead item is left to the mutex: the key looks missing already.
        if (!this.#links.isDead(item)) keys.set(this.#keyOf(item), { group, content });
        item = next;
      }
    }
    return {
      groups,
      keys,
      versions: versions.words.slice(),
      flush: `${control[CONTROL.FLUSH_LOW]} ${control[CONTROL.FLUSH_HIGH]}`,
    };
  }

  #keyOf(item: ItemRef): string {
    return this.#links.watch.keyOf(item);
  }

  /** Flags, id, value: all that a reader without the mutex copies but the deadline, a word of its own. */
  #contentOf(item: ItemRef): string {
    const { items } = this.#links;
    const state = items.state(item);
    // The reader leaves these to the mutex.
    if ((state & (STATE.CHAINED | STATE.STUB | STATE.EXPLICIT_ID)) !== 0) return "mutex";
    const looks = `${state & VISIBLE} ${items.clientFlags(item)} ${items.idLow(item)}`;
    const length = items.valueLength(item);
    const start = items.keyOffset(item) + items.keyLength(item);
    const { bytes } = this.#memory.segmentOf(item);
    let sum = length;
    for (let at = start; at < start + length; at++) sum = (Math.imul(sum, 31) + bytes[at]!) | 0;
    return `${looks} ${length} ${sum}`;
  }
}

/** Makes every change of a version without the mutex an error. @param memory Of the thread that executes commands. */
export function requireMutexForChanges({ control, versions }: Memory): void {
  for (const name of ["begin", "beginAll"] as const) {
    const change = versions[name].bind(versions) as (hash: number) => number;
    Object.defineProperty(versions, name, {
      value: (hash: number): number => {
        assertNotEquals(control[CONTROL.MUTEX], 0, "a change needs the mutex");
        return change(hash);
      },
    });
  }
}
