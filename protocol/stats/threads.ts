import { THREAD_STATS } from "../../store/stats.ts";
import {
  counter,
  counterOf,
  linesOf,
  type Stat,
  type StatEntry,
  type StatSource,
} from "./entry.ts";

const COMMANDS = counter("commands", "executed by the thread");

/** The statistics of `stats threads`; maintenance and the journal execute no commands. */
export function* threadStatistics({ cache, ops }: StatSource): Generator<Stat> {
  const maintenance = cache.inspector.threadCount - 1;
  for (let index = 0; index <= maintenance; index++) {
    const of = index === maintenance
      ? "maintenance"
      : index === cache.inspector.journalThread
      ? "journal"
      : `${index}`;
    if (of === `${index}`) {
      yield { name: "commands", value: ops.ofThread(index), meaning: COMMANDS, of };
    }
    for (const row of THREAD_STATS) {
      const value = Math.round(cache.inspector.threadStat(index, row[0]));
      yield { name: row[0], value, meaning: counterOf(row), of };
    }
  }
}

/** `stats threads`: what each thread has done, by its number. */
export function threadStats(thread: StatSource): Generator<StatEntry> {
  return linesOf(threadStatistics(thread), (of, name) => `${of}:${name}`);
}
