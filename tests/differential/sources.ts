import { BinaryCommandSource } from "./binary_commands.ts";
import { CommandSource, type RequestSource } from "./commands.ts";
import type { Difference } from "./differences.ts";
import { MetaCommandSource } from "./meta_commands.ts";

type MakeSources = (seed: number, without: ReadonlySet<Difference>) => RequestSource[];

/** Sources of duels with memcached. */
export const SOURCES: Readonly<Record<string, MakeSources>> = {
  classic: (seed, without) => [new CommandSource(seed, without)],
  meta: (seed, without) => [new MetaCommandSource(seed, without)],
  binary: (seed, without) => [new BinaryCommandSource(seed, without)],
  "classic and binary": (seed, without) => [
    new CommandSource(seed, without),
    new BinaryCommandSource(seed + 1, without),
  ],
  "meta and binary": (seed, without) => [
    new MetaCommandSource(seed, without),
    new BinaryCommandSource(seed + 1, without),
  ],
};
