// How large the table of leases is.

/** A record has one slot, and more for a long key. */
export const SLOT_BYTES = 64;

/** The least `leaseEntries`, 0 (no leases at all) aside: the longest key needs 5 slots. */
export const LEASE_ENTRIES_LEAST = 8;
/** The most. */
export const LEASE_ENTRIES_MOST = 10_000_000;

/** Hash buckets of a table of so many entries: a power of two. */
export function leaseBucketCount(entries: number): number {
  return entries === 0 ? 0 : 2 ** Math.ceil(Math.log2(entries));
}

/** What a table of so many entries takes, in bytes. Slot 0 is never used, so that 0 can mean none. */
export function leaseTableBytes(entries: number): number {
  return entries === 0 ? 0 : leaseBucketCount(entries) * 4 + (entries + 1) * SLOT_BYTES;
}

/** The most entries whose table takes at most `bytes`. */
export function leaseEntriesWithin(bytes: number): number {
  // 72: a slot and two buckets, the worst that rounding to a power of two makes.
  const entries = Math.min(LEASE_ENTRIES_MOST, Math.floor((bytes - SLOT_BYTES) / 72));
  return entries < LEASE_ENTRIES_LEAST ? 0 : entries;
}
