import {
  counter,
  gauge,
  type Stat,
  type StatEntry,
  type StatMeaning,
} from "../../../protocol/stats/entry.ts";
import type { ProxyCounts } from "../flows.ts";
import type { Proxy } from "../proxy.ts";
import { TIMED_STEPS } from "./step_times.ts";
import type { TokenState } from "../../rows/flows/token_states.ts";

type TokenCounts = Readonly<Record<TokenState, number>>;

type Row = readonly [
  name: string,
  value: (proxy: Proxy, tokens: TokenCounts) => number,
  meaning: StatMeaning,
];

/** A line with one of the proxy's counters. */
function counted(name: string, count: keyof ProxyCounts, unit: string, meaning: string): Row {
  return [name, ({ counts }) => counts[count], counter(unit, meaning)];
}

/** A line with the number of tokens in a state. */
function tokens(state: TokenState, meaning: string): Row {
  return [`tokens_${state}`, (_proxy, counts) => counts[state], gauge("tokens", meaning)];
}

/** The lines of the proxy's `stats`, before those of times. */
// deno-fmt-ignore
const ROWS: readonly Row[] = [
  ["epoch",          ({ states }) => states.epoch, gauge("", "number of this takeover of the database")],
  ["deposed",        ({ isDeposed }) => isDeposed ? 1 : 0, gauge("", "1: another proxy has taken over, else 0")],
  ["caches",         ({ caches }) => caches.all.length, gauge("caches", "in which writes delete")],
  ["caches_outside", ({ caches }) => caches.outside.length, gauge("caches", "that are not in the list, and may hold values")],
  ["caches_epoch",   ({ caches }) => caches.epoch, gauge("", "number of this list of caches")],
  tokens("idle", "given and not used"),
  tokens("busy", "whose write is in progress"),
  tokens("unknown", "whose write has an unknown outcome"),
  tokens("used", "whose write is committed, as far as they are remembered"),
  tokens("revoked", "revoked, as far as they are remembered"),
  counted("gets_cacheable", "getsCacheable", "reads", "of the database that a cache may keep"),
  counted("gets_uncacheable", "getsUncacheable", "reads", "of the database that no cache may keep"),
  counted("puts_committed", "putsCommitted", "writes", "committed"),
  counted("puts_refused", "putsRefused", "writes", "refused: the row's state forbids them"),
  counted("puts_revoked", "putsRevoked", "writes", "refused: their token was revoked"),
  counted("puts_failed", "putsFailed", "writes", "that wrote nothing: a cache or the database failed"),
  counted("puts_unknown", "putsUnknown", "writes", "with an unknown outcome"),
  counted("cache_hits", "cacheHits", "reads", "answered by a cache"),
  counted("cache_fills", "cacheFills", "values", "stored in a cache"),
  counted("cache_errors", "cacheErrors", "requests", "that a cache did not answer"),
];

/** Yields the statistics of the proxy's `stats` that are numbers. */
export function* proxyStatistics(proxy: Proxy): Generator<Stat> {
  const counts = proxy.states.counts();
  for (const [name, value, meaning] of ROWS) {
    yield { name, value: value(proxy, counts), meaning, of: "" };
  }
}

/** Yields the lines of the proxy's `stats`. */
export function* proxyStats(proxy: Proxy): Generator<StatEntry> {
  for (const { name, value } of proxyStatistics(proxy)) yield [name, value];
  for (const [step, name] of TIMED_STEPS) {
    const { count, sumMs, failures } = proxy.times[step];
    yield [`${name}_count`, count];
    yield [`${name}_us`, Math.round(sumMs * 1000)];
    yield [`${name}_failures`, failures];
  }
}
