import { isAtLeast } from "../support/servers/memcached.ts";

/**
 * Intended differences from versions of memcached. A command that meets a difference carries its
 * name and is not drawn when the installed memcached differs.
 *
 * Three differences are avoided by the choice of commands:
 *
 * - A value is no number above 4000 bytes here, above 512 KiB in memcached: arithmetic uses short
 *   values.
 * - memcached gives a number that is being sent an item of its own length: arithmetic comes first
 *   in a batch.
 * - memcached refuses numbers from 2^63 on if a minus sign follows anywhere in memory: numbers are
 *   smaller.
 */
type DifferenceRow = readonly [name: string, until: string, meaning: string];

/** Versions of memcached that all differ. */
const ALL = "99";

// deno-fmt-ignore
const DIFFERENCES = [
  // name               until     meaning
  ["short line",        "1.6.45", "lines of fewer than 4 bytes were ERROR"],
  ["leading blank",     "1.6.45", "blanks in front of a command were passed over"],
  ["word count",        "1.6.45", "too few words, and some too many, were ERROR"],
  ["refused block",     "1.6.45", "the data block of a refused storage line was read as commands"],
  ["shutdown refused",  "1.6.45", "the refusal began with ERROR"],
  ["C numbers",         "1.6.45", "byte counts, deltas and expiry times of touch and gat could have a plus or more than 32 bits"],
  ["NUL",               "1.6.45", "a NUL ended a line"],
  ["numbers without digits", ALL, "a minus alone is 0; a NUL ends flags and expiry time, and blanks like tabs reach into the next word"],
  ["odd base64",        ALL,      "what is no base64 is passed over"],
  ["silent unknown",    "1.6.45", "unknown commands were answered despite noreply"],
  ["flags that are no letters", "1.6.45", "were invalid flags like others, and the data block was passed over"],
  ["lost T and E",      ALL,      "ma's T and E were set on the item whose place a longer number had taken"],
  ["base64 forgotten",  ALL,      "items made by N, and values that became longer, do not know that their key came as base64"],
  ["long modes",        "1.6.45", "a mode had to be one letter"],
  ["mg C",              "1.6.45", "C meant nothing to mg"],
  ["flags E and x",     "1.6.45", "were unknown"],
  ["long opaque",       ALL,      "an opaque that is too long is refused only with what mg and ma do already done"],
  ["long opaque of ms", "1.6.45", "as that of mg and ma"],
  ["ma N q",            "1.6.45", "a number that was made was told of in spite of q"],
  ["flags with more",   "1.6.45", "flags without an argument could have none"],
  ["me times",          "1.6.45", "me told what is left of an item's time with a minus in front"],
  ["bad flags",         "1.6.45", "of several mistakes another one was told"],
  ["idle flags",        "1.6.45", "flags that mean nothing to a command were invalid"],
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

/**
 * Intended differences from yrmcds that remain under `-o compat=yrmcds`. Requests that meet one are
 * not sent, or their replies are not compared.
 */
// deno-fmt-ignore
export const YRMCDS_DIFFERENCES = [
  // name                      meaning
  ["error texts",              "binary refusals have other texts, a miss of GetK names no key"],
  ["flags of Touch",           "Touch is answered without the flags"],
  ["ids by item",              "every item counts its own cas ids from 1, so they come again"],
  ["order of keys",            "keys are listed in another order"],
  ["Add with an id",           "Add is refused wherever there is something, whatever cas id it names"],
  ["silent LaGKQ",             "LaGKQ says nothing about a miss"],
  ["UnlockAll with a key",     "UnlockAll takes a key and a value"],
  ["empty values",             "binary commands refuse to store an empty value"],
  ["too large",                "a set that is too large leaves the old item; append and prepend know no limit"],
  ["id before number",         "incr and decr of an empty value look at the cas id first"],
  ["padded numbers",           "a number that becomes shorter is not padded"],
  ["C numbers",                "numbers are read as C's strtoull does, negative expiry times are refused"],
  ["refused lines",            "every malformed line is ERROR, and the data block behind it a command"],
  ["refused requests",         "malformed requests of memcached's own commands cost no connection; Get may have an expiry time"],
  ["long keys",                "keys of more than 250 bytes are only refused where something is stored"],
  ["waits and fencing numbers", "lock knows no further words"],
  ["flush",                    "for about a second after flush_all everything stored is lost; what is locked survives it"],
  ["expired before LaG",       "LaG brings an expired item back to life"],
  ["commands of memcached",    "gat, gats, meta commands and others are not known"],
  ["unknown opcodes",          "are answered with opcode 0x51"],
  ["versions",                 "have other texts"],
  ["statistics",               "count other things, but for stats ops"],
  ["counts of malformed lines", "stats ops counts no lock and unlock with too few or too many words"],
] as const;

export type YrmcdsDifference = typeof YRMCDS_DIFFERENCES[number][0];
