/** Runs of the store's bench that need no trace, by name. */
export const STORE_RUNS: Record<string, () => void> = {};
