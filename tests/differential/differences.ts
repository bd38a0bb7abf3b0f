import { isAtLeast } from "../support/memcached.ts";

/**
 * Where we mean to differ from some memcached. A command that may meet one carries its name; what is drawn with it is left out
 * when the memcached at hand is one that differs.
 *
 * Three differences are kept out by the way commands are drawn: a value of more than some 4000 bytes is no number here, of more than
 * 512 KiB there; and a number that is on its way to somebody gets an item of its own length there, here never. So arithmetic is
 * done on short values, and comes first in a batch. And numbers from 2^63 on are refused there when a byte like a minus
 * sign stands anywhere behind them in memory, so numbers are smaller.
 */
type DifferenceRow = readonly [name: string, until: string, meaning: string];

/** Versions of memcached that all differ. */
const ALL = "99";

// deno-fmt-ignore
export const DIFFERENCES = [
  // name               until     meaning
  ["short line",        "1.6.45", "lines of fewer than 4 bytes were ERROR"],
  ["leading blank",     "1.6.45", "blanks in front of a command were passed over"],
  ["word count",        "1.6.45", "too few words, and some too many, were ERROR"],
  ["refused block",     "1.6.45", "the data block of a refused storage line was read as commands"],
  ["C numbers",         "1.6.45", "byte counts, deltas and expiry times of touch and gat could have a plus or more than 32 bits"],
  ["NUL",               "1.6.45", "a NUL ended a line"],
  ["silent unknown",    "1.6.45", "unknown commands were answered despite noreply"],
  ["flags that are no letters", "1.6.45", "were invalid flags like others, and the data block was passed over"],
  ["lost T",            ALL,      "ma's T was set on the item whose place a longer number had taken"],
  ["base64 forgotten",  ALL,      "items made by N, and values that were extended, do not know that their key came as base64"],
  ["long modes",        "1.6.45", "a mode had to be one letter"],
  ["mg C",              "1.6.45", "C meant nothing to mg"],
  ["flags E and x",     "1.6.45", "were unknown"],
  ["long opaque",       "1.6.45", "an opaque that is too long was refused only with what came before it already done"],
  ["ms N",              "1.6.45", "N meant nothing to ms"],
  ["ms s",              "1.6.45", "s meant nothing to ms"],
  ["md refusals",       "1.6.45", "all were CLIENT_ERROR invalid or duplicate flag"],
  ["long meta key",     "1.6.45", "the refusal was mangled"],
  ["long key in a get", ALL,      "the error for an over-long key swallows the reply before, or an empty line follows it"],
  ["endless body",      "1.6.45", "a binary request with a body of more than 1 GiB was no error"],
  ["malformed SASL",    ALL,      "binary requests of SASL without it are unknown commands, but malformed ones cost the connection"],
  ["unknown with a body", ALL,    "behind an unknown binary command more is passed over than its body"],
] as const satisfies readonly DifferenceRow[];

export type Difference = typeof DIFFERENCES[number][0];

/** The differences from this version of memcached. */
export function differencesFrom(version: string): Set<Difference> {
  const rows = DIFFERENCES.filter(([, until]) => !isAtLeast(version, until));
  return new Set(rows.map(([name]) => name));
}
