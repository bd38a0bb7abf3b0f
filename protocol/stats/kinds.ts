import type { RequestConversation } from "../conversation.ts";
import { classStats, itemStats, slabStats } from "./classes.ts";
import type { StatEntry } from "./entry.ts";
import { sizeStats } from "./item_walk.ts";
import { latencyStats } from "./latency.ts";
import { opStats } from "./ops.ts";
import { settingStats } from "./settings.ts";
import { threadStats } from "./threads.ts";

type StatKind = readonly [
  name: string,
  /** Whether a part of the name will do: in text any beginning, in binary any word that begins with it (memcached). */
  loose: boolean,
  entries: (conversation: RequestConversation) => Iterable<StatEntry | null>,
];

/** The statistics tables: arguments of `stats`, keys of the binary Stat. */
// deno-fmt-ignore
export const STAT_KINDS: readonly StatKind[] = [
  // name      loose  entries
  ["settings", true,  ({ thread }) => settingStats(thread)],
  ["items",    false, ({ thread }) => itemStats(thread)],
  ["slabs",    false, ({ thread }) => slabStats(thread)],
  ["classes",  false, ({ thread }) => classStats(thread)],
  ["ops",      false, opStats],
  ["latency",  false, ({ thread }) => latencyStats(thread)],
  ["threads",  false, ({ thread }) => threadStats(thread)],
  ["sizes",    false, ({ thread }) => sizeStats(thread)],
];
