// The door for collectors of statistics: what the tables of `stats` are made from.

import { BINARY_COMMANDS } from "./binary/table.ts";
import type { Stat, StatSource } from "./stats/entry.ts";
import { opStatistics } from "./stats/ops.ts";
import { COMMANDS } from "./text/table.ts";

export { classStatistics, itemStatistics, slabStatistics } from "./stats/classes.ts";
export { generalStatistics } from "./stats/general.ts";
export { latencyHistograms, latencyStatistics } from "./stats/latency.ts";
export { threadStatistics } from "./stats/threads.ts";

const BINARY_NAMES = BINARY_COMMANDS.map(({ name, opcode }) => ({ name, index: opcode }));

/** The statistics of `stats ops`. */
export function commandStatistics({ ops }: StatSource): Generator<Stat> {
  return opStatistics(ops, COMMANDS, BINARY_NAMES);
}
