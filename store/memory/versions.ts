import { assert } from "../base/assert.ts";

// Hot path: no allocation.

/**
 * Groups of buckets, a power of two, and at most the buckets of a new index. The index grows by splitting buckets, so
 * all buckets of a hash, at any size of the index, are in the group `hash & (VERSION_GROUPS - 1)`.
 */
const VERSION_GROUPS = 8192;

/** Stands for no group: versions are off, or the group has a change in progress. */
export const NO_GROUP = -1;

/** A group whose change the caller of `begin` must end, or NO_GROUP. */
type BegunGroup = number;

/** Returns the size of the versions, in bytes: none if every reader takes the mutex. */
export function versionBytesNeeded(optimisticReads: boolean): number {
  return optimisticReads ? VERSION_GROUPS * Int32Array.BYTES_PER_ELEMENT : 0;
}

/**
 * Sequence locks (Lameter, "Effective synchronization on Linux/NUMA systems", 2005): a version for each group of
 * buckets. The version is odd while a writer, which holds the mutex, changes something that a reader of these buckets
 * can reach. A reader without the mutex takes the version, reads, and takes the version again. If it was odd or has
 * changed, the reader begins again. docs/internals/optimistic_reads.md has the list of changes and the argument about
 * the order of memory accesses.
 *
 * An error between `begin` and `end` leaves the version odd: the change is half done, so no reader may use it without
 * the mutex, which the failed thread holds.
 */
export class Versions {
  /** Whether readers rely on versions. If not, the other methods do nothing. */
  readonly isOn: boolean;
  /** The versions by group. */
  readonly words: Int32Array;
  /** From a hash to its group. */
  readonly mask: number;

  constructor(shared: SharedArrayBuffer) {
    this.words = new Int32Array(shared);
    this.isOn = this.words.length > 0;
    this.mask = this.words.length - 1;
  }

  /**
   * Begins a change of what readers of a hash's group can reach. Every `begin` is followed by `end`; changes may nest.
   *
   * @returns The group to `end`, or NO_GROUP.
   */
  begin(hash: number): BegunGroup {
    if (!this.isOn) return NO_GROUP;
    const group = hash & this.mask;
    const version = this.words[group]!;
    // An outer change of the same group ends it.
    if ((version & 1) !== 0) return NO_GROUP;
    this.words[group] = version + 1;
    return group;
  }

  end(begun: BegunGroup): void {
    if (begun !== NO_GROUP) this.words[begun] = (this.words[begun]! + 1) | 0;
  }

  /** Begins a change that concerns every group. No other change may be in progress. */
  beginAll(): void {
    assert(this.#advanceAll() === 0, "no change is in progress when one of all groups begins");
  }

  endAll(): void {
    this.#advanceAll();
  }

  /** @returns 1 if a version was odd before, else 0. */
  #advanceAll(): number {
    let odd = 0;
    for (let group = 0; group < this.words.length; group++) {
      odd |= this.words[group]! & 1;
      this.words[group]! += 1;
    }
    return odd;
  }
}
