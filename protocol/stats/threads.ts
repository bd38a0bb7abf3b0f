import { THREAD_STATS } from "../../store/stats.ts";
import type { ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** `stats threads`: what each thread has done, by its number; maintenance and the journal execute no commands. */
export function* threadStats(thread: ThreadContext): Generator<StatEntry> {
  const { cache, ops } = thread;
  const maintenance = cache.inspector.threadCount - 1;
  for (let index = 0; index <= maintenance; index++) {
    const name = index === maintenance
      ? "maintenance"
      : index === cache.inspector.journalThread
      ? "journal"
      : index;
    if (typeof name === "number") yield [`${name}:commands`, ops.ofThread(index)];
    for (const [stat] of THREAD_STATS) {
      yield [`${name}:${stat}`, Math.round(cache.inspector.threadStat(index, stat))];
    }
  }
}
