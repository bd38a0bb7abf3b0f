// How large the table of leases can be.

/** The least `leaseEntries`, 0 (no leases at all) aside: the longest key needs 5 slots. */
export const LEASE_ENTRIES_LEAST = 8;
/** The most. */
export const LEASE_ENTRIES_MOST = 10_000_000;
