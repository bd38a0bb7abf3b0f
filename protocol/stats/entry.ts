import type { OpCounts } from "../counts/op_counts.ts";
import type { RequestTimes } from "../counts/request_times.ts";
import type { ServerHooks } from "../thread_context.ts";
import type { Settings } from "../settings.ts";
import type { Inspector } from "../../store/inspector.ts";
import type { ConnectionTable } from "../../store/connections.ts";
import type { StatRow, Unit } from "../../store/stats.ts";

/**
 * One line of statistics: the text protocol writes `STAT <name> <value>`, the binary one a packet. A null in a sequence
 * of entries marks where the mutex may be yielded.
 */
export type StatEntry = readonly [name: string, value: string | number];

/** The meaning of a statistic, for collectors that keep it over time. */
export interface StatMeaning {
  /** `counter`: only grows, until `stats reset`; `gauge`: how it is now; `info`: a text. */
  readonly kind: "counter" | "gauge" | "info";
  readonly unit: Unit;
  readonly meaning: string;
}

/** A statistic of a table, from which its line is made. In a sequence, null is as in `StatEntry`. */
export interface Stat {
  readonly name: string;
  readonly value: string | number;
  /** Undefined: a constant, or said better by another statistic. */
  readonly meaning: StatMeaning | undefined;
  /** The slab class, thread or protocol that it is about; "": all. */
  readonly of: string;
}

/** The source of the tables' statistics. A ThreadContext is one. */
export interface StatSource {
  readonly cache: { readonly inspector: Inspector };
  readonly connections: ConnectionTable;
  readonly settings: Settings;
  readonly ops: OpCounts;
  readonly times: RequestTimes;
  readonly hooks: Pick<ServerHooks, "processState">;
}

export function counter(unit: Unit, meaning: string): StatMeaning {
  return { kind: "counter", unit, meaning };
}

export function gauge(unit: Unit, meaning: string): StatMeaning {
  return { kind: "gauge", unit, meaning };
}

export function info(meaning: string): StatMeaning {
  return { kind: "info", unit: "", meaning };
}

/** A statistic that is about all. */
export function stat(name: string, value: number, meaning: StatMeaning): Stat {
  return { name, value, meaning, of: "" };
}

/** The meaning of a counter of the store. */
export function counterOf([, unit, meaning]: StatRow): StatMeaning {
  return counter(unit, meaning);
}

/** Yields the lines of statistics; `name` makes the names of those that are not about all. */
export function* linesOf(
  statistics: Iterable<Stat | null>,
  name: (of: string, name: string) => string,
): Generator<StatEntry> {
  for (const stat of statistics) {
    if (stat === null) continue;
    yield [stat.of === "" ? stat.name : name(stat.of, stat.name), stat.value];
  }
}

// How settings are written.
export const yesNo = (value: boolean): string => value ? "yes" : "no";
export const onOff = (value: boolean): string => value ? "on" : "off";
