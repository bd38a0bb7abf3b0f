/** How much of a connection's work is done at a time: the replies must not depend on it. */
export const SLICES: readonly { readonly title: string; readonly options: readonly string[] }[] = [
  { title: "", options: [] },
  { title: ", a slice for each request", options: ["-R", "1"] },
];

/** The same for servers in process, and whether reads take the mutex: with one thread all do. */
export const IN_PROCESS_VARIANTS: typeof SLICES = [
  ...SLICES,
  { title: ", reads without the mutex", options: ["-t", "2"] },
];
