import type { TranscriptCase } from "../../support/sessions/transcript.ts";
import type { Disturbance } from "./world.ts";

/** Cases whose replies a disturbance may change. */
interface Exception {
  /** The beginnings of the names of disturbances. */
  readonly by: readonly string[];
  readonly reason: string;
  /** By file: the beginnings of the names of cases. */
  readonly cases: Readonly<Record<string, readonly string[]>>;
}

/** A table with more lines would hide faults. */
export const ENTRIES_MAX = 32;

/** The cases whose replies depend on a disturbance. A test fails for one that no longer does. */
const EXCEPTIONS: readonly Exception[] = [
  {
    by: ["a restart"],
    reason: "what a command has switched on or off, or has counted, ends with the process",
    cases: {
      "binary.txt": ["statistics"],
      "stats.txt": ["stats detail"],
      "tuning.txt": ["lru_crawler can be switched off"],
    },
  },
  {
    by: ["a restart"],
    reason: "a clock that debugtime has moved or stopped ends with the process",
    cases: { "debug.txt": ["debugtime moves the clock", "debugtime moves the clock by"] },
  },
  {
    by: ["a restart with"],
    reason: "dead items are not restored, so no read meets them",
    cases: {
      "counts.txt": ["reclaimed counts the dead", "reclaimed counts what"],
      "expiry.txt": ["get_expired"],
    },
  },
  {
    by: ["pages that move", "an hour"],
    reason: "dead items are removed meanwhile, so no read meets them",
    cases: {
      "counts.txt": ["reclaimed counts what"],
      "expiry.txt": ["get_expired"],
      "flush.txt": ["get_flushed"],
    },
  },
  {
    by: ["a start with -o", "a restart with other", "a restart with -o"],
    reason: "the layout decides how many bytes an item has",
    cases: { "stats.txt": ["stats sizes"] },
  },
  {
    by: ["a restart with"],
    reason: "the layout decides how many bytes an item has",
    cases: { "tuning.txt": ["lru_crawler metadump"] },
  },
  {
    by: ["a restart with -"],
    reason: "the layout decides how many bytes an item has",
    cases: { "meta.txt": ["me tells"] },
  },
  {
    by: ["a start with -I"],
    reason: "the limit of an item's size is larger",
    cases: {
      "binary.txt": ["too large"],
      "cas_disabled.txt": ["items are 8 bytes smaller"],
      "errors.txt": [
        "too large for",
        "cas too large for",
        "the largest item",
        "appending beyond",
        "what is refused for its size",
      ],
      "locks_binary.txt": ["replace and unlock keeps"],
    },
  },
  {
    by: ["an hour"],
    reason: "the reply tells how much time has passed",
    cases: { "meta.txt": ["l counts"] },
  },
];

/** One line of the table: a case of a disturbance. */
export interface Entry {
  /** The beginning of the disturbance's name. */
  readonly by: string;
  readonly file: string;
  /** The beginning of the case's name. */
  readonly start: string;
}

export const ENTRIES: readonly Entry[] = EXCEPTIONS.flatMap(({ by, cases }) =>
  by.flatMap((by) =>
    Object.entries(cases).flatMap(([file, starts]) => starts.map((start) => ({ by, file, start })))
  )
);

/** Returns the lines that a disturbance has for a file. */
export function entriesOf({ name }: Disturbance, file: string): Entry[] {
  return ENTRIES.filter((entry) => entry.file === file && name.startsWith(entry.by));
}

/** Returns the line for a case: of several, the one with the longest beginning of its name. */
export function entryFor({ name }: TranscriptCase, entries: Iterable<Entry>): Entry | undefined {
  return [...entries].filter(({ start }) => name.startsWith(start))
    .sort((a, b) => b.start.length - a.start.length)[0];
}
