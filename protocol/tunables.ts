import type { Settings } from "./settings.ts";

/** `number`: as it is; `ratio` and `fine`: with two and three decimals; `switch`: yes or no. */
type TunableKind = "number" | "ratio" | "fine" | "switch";
type TunableRow = readonly [name: string, kind: TunableKind, preset: number];

/**
 * Settings that commands may change while the process runs, under the names `stats settings` gives
 * them. Those of memcached's queues, crawler and page mover are kept and reported, and do nothing:
 * the store here has other means, which need no tuning.
 */
// deno-fmt-ignore
export const TUNABLES = [
  // name                     kind      preset
  ["verbosity",               "number", 0],
  ["detail_enabled",          "switch", 0],
  ["slab_automove",           "number", 1],
  ["slab_automove_ratio",     "ratio",  0.8],
  ["slab_automove_window",    "number", 10],
  ["slab_automove_freeratio", "fine",   0.01],
  ["lru_crawler",             "switch", 1],
  ["lru_crawler_sleep",       "number", 100],
  ["lru_crawler_tocrawl",     "number", 0],
  ["lru_segmented",           "switch", 1],
  ["hot_lru_pct",             "number", 20],
  ["warm_lru_pct",            "number", 40],
  ["hot_max_factor",          "ratio",  0.2],
  ["warm_max_factor",         "ratio",  2],
  ["temp_lru",                "switch", 0],
  ["temporary_ttl",           "number", 61],
] as const satisfies readonly TunableRow[];

/** Names of the rows. */
export type TunableName = typeof TUNABLES[number][0];

const INDEX = Object.fromEntries(TUNABLES.map((row, index) => [row[0], index])) as {
  readonly [Name in TunableName]: number;
};

/** One thread's view of the tunables, which all threads share. Written under the store's mutex. */
export class Tunables {
  readonly #values: Float64Array;

  constructor(shared: SharedArrayBuffer) {
    this.#values = new Float64Array(shared);
  }

  static createShared(settings: Settings): SharedArrayBuffer {
    const shared = new SharedArrayBuffer(TUNABLES.length * 8);
    const tunables = new Tunables(shared);
    for (const [name, , preset] of TUNABLES) tunables.set(name, preset);
    tunables.set("verbosity", settings.verbose);
    tunables.set("detail_enabled", settings.detailEnabled ? 1 : 0);
    return shared;
  }

  get(name: TunableName): number {
    return this.#values[INDEX[name]]!;
  }

  set(name: TunableName, value: number): void {
    this.#values[INDEX[name]] = value;
  }

  /** As `stats settings` writes it. */
  text(name: TunableName): string {
    const value = this.get(name);
    switch (TUNABLES[INDEX[name]]![1]) {
      case "switch":
        return value ? "yes" : "no";
      case "ratio":
        return value.toFixed(2);
      case "fine":
        return value.toFixed(3);
      default:
        return String(value);
    }
  }

  /** Whether key prefixes are counted. Asked by every command, so without a name. */
  get detailEnabled(): boolean {
    return this.#values[INDEX.detail_enabled] !== 0;
  }
}
