// What the process needs to make a store, to keep it going and to check it, before and beside the
// operations of cache.ts.

export { checkStore } from "./check/check.ts";
export { firstIdAt } from "./memory/ids.ts";
export { LEASE_ENTRIES_LEAST, LEASE_ENTRIES_MOST } from "./memory/lease_layout.ts";
export { createSharedMemory, Memory, type SharedMemory, threadRowCount } from "./memory/memory.ts";
export { Prefault } from "./memory/prefault.ts";
export { slotsWithin, slotTableBytes } from "./memory/slot_table.ts";
