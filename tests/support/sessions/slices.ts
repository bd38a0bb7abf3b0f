/** How much of a connection's work is done at a time: the replies must not depend on it. */
export const SLICES: readonly { readonly title: string; readonly options: readonly string[] }[] = [
  { title: "", options: [] },
  { title: ", a slice for each request", options: ["-R", "1"] },
];
