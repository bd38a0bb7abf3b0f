import type { Disturbance } from "./world.ts";

const HOUR_SEC = 3600;

/** Other memory, classes, pages: a server that loads a snapshot stores its items again. */
const OTHER_LAYOUTS: readonly (readonly string[])[] = [
  ["-m", "24", "-f", "1.3"],
  ["-o", "slab_layout=memcached"],
  ["-n", "100"],
];

/** Everything that happens between requests. */
export const INTERRUPTIONS: readonly Disturbance[] = [
  { name: "a restart", apply: (world) => world.restart([]) },
  {
    name: "a restart with other options",
    apply: (world) => world.restart(OTHER_LAYOUTS[world.places % OTHER_LAYOUTS.length]!),
  },
  { name: "pages that move", apply: (world) => world.movePages() },
  { name: "another thread", options: ["-t", "2"], apply: (world) => world.changeThread() },
  { name: "a check of the memory", apply: (world) => world.check() },
  { name: "an hour", apply: (world) => world.advanceUnseen(HOUR_SEC) },
];

/** The restarts with other options, one by one. */
export const RESTARTS: readonly Disturbance[] = OTHER_LAYOUTS.map((options) => ({
  name: `a restart with ${options.join(" ")}`,
  apply: (world) => world.restart(options),
}));

/** Servers that are started with other options. */
export const STARTS: readonly Disturbance[] = [
  ...OTHER_LAYOUTS,
  ["-I", "1025k"],
  ["-t", "4"],
].map((options) => ({
  name: `a start with ${options.join(" ")}`,
  options,
}));
