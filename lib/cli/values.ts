import { closestString } from "@std/text/closest-string";
import { levenshteinDistance } from "@std/text/levenshtein-distance";
import { type OptionRow, RANGE_REASONS } from "./option_table.ts";

/** The value of an option; a list if the option may be repeated. */
export type OptionValue = boolean | number | string | readonly string[];

const KIB = 1024;
const SIZE_UNITS: Readonly<Record<string, number>> = {
  b: 1,
  k: KIB,
  m: KIB ** 2,
  g: KIB ** 3,
};

/**
 * Reads the value of an option.
 *
 * @throws RangeError when the text is not of the row's kind or range; the message names the range: "must be a whole
 *   number from 1 to 256".
 */
export function readValue(row: OptionRow, text: string): OptionValue {
  const [, , kind, unit] = row;
  if (text === "") throw new RangeError("needs a value");
  switch (kind) {
    case "whole":
    case "level":
      return inRange(row, /^-?\d+$/.test(text) ? Number(text) : NaN);
    case "octal":
      return inRange(row, /^[0-7]+$/.test(text) ? parseInt(text, 8) : NaN);
    case "real":
      return inRange(row, /^\d*\.?\d+$|^\d+\.$/.test(text) ? Number(text) : NaN);
    case "mib":
      return inRange(row, readSize(text, SIZE_UNITS.m!));
    case "bytes":
      return inRange(row, readSize(text, 1));
    case "choice":
      if (!unit.split("|").includes(text)) throw new RangeError(`must be ${rangeText(row)}`);
      return text;
    case "list":
      return text.split(/[,;]/).filter((part) => part !== "");
    default:
      return text;
  }
}

/**
 * Returns the result of `read`. If it throws a RangeError, adds `label` and the message to `errors` and returns
 * `fallback`.
 */
export function valueOr<Value, Fallback>(
  fallback: Fallback,
  read: () => Value,
  errors: string[],
  label: string,
): Value | Fallback {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    errors.push(`${label}: ${error.message}`);
    return fallback;
  }
}

/** Reads `64`, `64m`, `1g`, `1.5g` or `512kb`. Returns bytes, or NaN if the text is no size. */
function readSize(text: string, bareUnitBytes: number): number {
  const match = /^(\d+(?:\.\d+)?)([kmg]?)b?$/i.exec(text);
  if (match === null) return NaN;
  const unitBytes = match[2] === "" ? bareUnitBytes : SIZE_UNITS[match[2]!.toLowerCase()]!;
  return Math.floor(Number(match[1]) * unitBytes);
}

function inRange(row: OptionRow, value: number): number {
  const [, , , , least, most] = row;
  if (Number.isNaN(value) || value < least || value > most) {
    const reason = value > most ? RANGE_REASONS[row[0]] : undefined;
    throw new RangeError(`must be ${rangeText(row)}${reason === undefined ? "" : `; ${reason}`}`);
  }
  return value;
}

/** Describes the values that a row takes, to follow "must be". */
export function rangeText(row: OptionRow): string {
  const [, , kind, unit, least, most] = row;
  switch (kind) {
    case "octal":
      return `an octal number, ${least.toString(8)} to ${most.toString(8)}`;
    case "mib":
      return `a size from ${sizeText(least)} to ${sizeText(most)} (a bare number is in MiB)`;
    case "bytes":
      return `a size from ${sizeText(least)} to ${sizeText(most)} (a bare number is in bytes)`;
    case "real":
      return `a number from ${least} to ${most}`;
    case "choice":
      return orList(unit.split("|"));
    default:
      return `a whole number from ${least} to ${most}`;
  }
}

/** Writes a size as `64m`, `1g` or `1000`. */
export function sizeText(bytes: number): string {
  for (const unit of ["g", "m", "k"]) {
    const unitBytes = SIZE_UNITS[unit]!;
    if (bytes >= unitBytes && bytes % unitBytes === 0) return `${bytes / unitBytes}${unit}`;
  }
  return String(bytes);
}

/** Joins words: `a, b or c`. */
export function orList(words: readonly string[]): string {
  return words.length === 1
    ? words[0]!
    : `${words.slice(0, -1).join(", ")} or ${words[words.length - 1]}`;
}

/** Returns `; did you mean --port or --protocol?`, or "" if no word is similar. */
export function didYouMean(word: string, words: readonly string[]): string {
  const bare = word.replace(/^-+/, "");
  if (bare.length < 2 || words.length === 0) return "";
  const closest = closestString(word, words);
  const distance = levenshteinDistance(word, closest);
  const near = distance <= Math.max(2, Math.floor(bare.length / 3)) && distance < bare.length;
  const longer = words.filter((candidate) => bare.length >= 3 && candidate.startsWith(word));
  const candidates = new Set([...(near ? [closest] : []), ...longer.slice(0, 2)]);
  return candidates.size === 0 ? "" : `; did you mean ${[...candidates].join(" or ")}?`;
}
