/**
 * Environment of processes that make thousands of stores: the C library takes their memory from the kernel, which gives
 * zeros only for what is used. Otherwise it takes what was freed before, and clears all of it: three times the work.
 */
export const FRESH_MEMORY = { MALLOC_MMAP_THRESHOLD_: "131072" };
