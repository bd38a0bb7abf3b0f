import { parseArgs } from "@std/cli/parse-args";
import {
  EXTENDED_OPTIONS,
  type ExtendedValues,
  type OptionRow,
  OPTIONS,
  type OptionValues,
  UNSUPPORTED_EXTENDED,
} from "./option_table.ts";
import { didYouMean, type OptionValue, readValue, valueOr } from "./values.ts";

/** An option that is accepted and has no effect. */
export interface IgnoredOption {
  /** As the command line names it: `-k (--lock-memory)`, `-o hashpower`. */
  readonly option: string;
  /** Why it has no effect, and what to use instead. */
  readonly reason: string;
}

/** A command line, read. */
export interface ParsedArguments {
  readonly values: OptionValues;
  readonly extended: ExtendedValues;
  /** Long names of the options that were given, `-o` words included. */
  readonly given: ReadonlySet<string>;
  readonly ignored: readonly IgnoredOption[];
  /** All mistakes, one message each. */
  readonly errors: readonly string[];
  /** Whether an option that is not supported stands before --help, --version and --license. */
  readonly refusedFirst: boolean;
}

/** The options of one command, found by their names. */
class OptionIndex {
  readonly rows: readonly OptionRow[];
  readonly byName: ReadonlyMap<string, OptionRow>;
  readonly byLetter: ReadonlyMap<string, OptionRow>;
  /** Of options that work. */
  readonly longFlags: readonly string[];

  constructor(rows: readonly OptionRow[]) {
    this.rows = rows;
    this.byName = new Map(rows.map((row) => [row[0], row]));
    this.byLetter = new Map(rows.filter((row) => row[1] !== "").map((row) => [row[1], row]));
    this.longFlags = rows.filter((row) => row[7] === "works").map((row) => `--${row[0]}`);
  }
}

const SERVER_OPTIONS = new OptionIndex(OPTIONS);
const EXTENDED_BY_NAME = new Map<string, OptionRow>(EXTENDED_OPTIONS.map((row) => [row[0], row]));
const EXTENDED_WORDS = EXTENDED_OPTIONS.flatMap((row): string[] =>
  row[2] === "switch" || row[2] === "level" ? [row[0], `no_${row[0]}`] : [row[0]]
);

/** A command line, read by one table. */
export interface ParsedTable {
  readonly values: Record<string, OptionValue>;
  readonly given: Set<string>;
  readonly ignored: IgnoredOption[];
  readonly errors: string[];
  /** The options as `--name=value`. */
  readonly long: readonly string[];
}

/** Reads a command line by a table of its own. Never throws: `errors` lists all mistakes. */
export function parseTable(argv: readonly string[], rows: readonly OptionRow[]): ParsedTable {
  return parseByIndex(argv, new OptionIndex(rows));
}

function parseByIndex(argv: readonly string[], index: OptionIndex): ParsedTable {
  const { rows } = index;
  const errors: string[] = [];
  const ignored: IgnoredOption[] = [];
  const given = new Set<string>();
  const values = presets(rows);
  const long = toLongForm(index, argv, errors);
  const texts = parseArgs(long, {
    string: rows.filter(takesValue).map((row) => row[0]),
    boolean: rows.filter((row) => !takesValue(row)).map((row) => row[0]),
    collect: rows.filter((row) => row[2] === "list" || row[2] === "count").map((row) => row[0]),
    unknown: (argument, key) => {
      if (key !== undefined) errors.push(unknownFlag(index, argument));
      else errors.push(`unexpected argument "${argument}": options start with -`);
      return false;
    },
  });
  for (const row of rows) {
    const [name, , kind, , , , , state, meaning] = row;
    const text = texts[name] as string | string[] | boolean | undefined;
    if (text === undefined || text === false || (Array.isArray(text) && text.length === 0)) {
      continue;
    }
    given.add(name);
    if (state === "unsupported") {
      errors.push(`${flagText(row)} is not supported: ${meaning}`);
      continue;
    }
    if (state === "ignored") ignored.push({ option: flagText(row), reason: meaning });
    if (kind === "switch") values[name] = true;
    else if (kind === "count") values[name] = (text as unknown[]).length;
    else readInto(values, row, flagText(row), text as string | string[], errors);
  }
  return { values, given, ignored, errors, long };
}

/** Reads a server's command line. Never throws: `errors` lists all mistakes. */
export function parseArguments(argv: readonly string[]): ParsedArguments {
  const { values, given, ignored, errors, long } = parseByIndex(argv, SERVER_OPTIONS);
  const extended = presets(EXTENDED_OPTIONS);
  for (const word of values["extended"] as string[]) {
    readExtended(extended, word, given, ignored, errors);
  }
  return {
    values: values as OptionValues,
    extended: extended as ExtendedValues,
    given,
    ignored,
    errors,
    refusedFirst: refusesFirst(long),
  };
}

const PRINTING = new Set(["--help", "--version", "--license"]);

/** memcached acts on options from left to right. Test suites learn by `--enable-sasl --version` what is built in. */
function refusesFirst(long: readonly string[]): boolean {
  for (const argument of long) {
    if (PRINTING.has(argument)) return false;
    const name = /^--([^=]+)/.exec(argument)?.[1] ?? "";
    if (SERVER_OPTIONS.byName.get(name)?.[7] === "unsupported") return true;
  }
  return false;
}

function takesValue(row: OptionRow): boolean {
  return row[2] !== "switch" && row[2] !== "count";
}

/** The defaults of a table. A number without a default is NaN, a text "". */
function presets(rows: readonly OptionRow[]): Record<string, OptionValue> {
  const values: Record<string, OptionValue> = {};
  for (const row of rows) {
    const [name, , kind, , , , preset] = row;
    if (kind === "switch") values[name] = preset === "on";
    else if (kind === "count") values[name] = 0;
    else if (preset !== "") values[name] = readValue(row, preset);
    else values[name] = kind === "list" ? [] : kind === "text" || kind === "choice" ? "" : NaN;
  }
  return values;
}

function readInto(
  values: Record<string, OptionValue>,
  row: OptionRow,
  flag: string,
  text: string | readonly string[],
  errors: string[],
): void {
  const texts = typeof text === "string" ? [text] : text;
  const read = (): OptionValue => {
    const parts = texts.map((part) => readValue(row, part));
    return row[2] === "list" ? (parts as string[][]).flat() : parts[0]!;
  };
  values[row[0]] = valueOr(values[row[0]]!, read, errors, `${flag} ${JSON.stringify(text)}`);
}

/** Reads one word of `-o`: `name`, `no_name` or `name=value`. */
function readExtended(
  values: Record<string, OptionValue>,
  word: string,
  given: Set<string>,
  ignored: IgnoredOption[],
  errors: string[],
): void {
  const [, label, , text] = /^([^=]*)(=(.*))?$/s.exec(word)!;
  const negated = !EXTENDED_BY_NAME.has(label!) && label!.startsWith("no_");
  const name = negated ? label!.slice(3) : label!;
  const row = EXTENDED_BY_NAME.get(name);
  const kind = row?.[2];
  if (row === undefined || (negated && kind !== "switch" && kind !== "level")) {
    errors.push(unknownExtended(label!));
    return;
  }
  given.add(name);
  if (row[7] === "ignored") ignored.push({ option: `-o ${label}`, reason: row[8] });
  if (kind === "switch" || negated) {
    if (text !== undefined) errors.push(`-o ${label}: takes no value, got ${JSON.stringify(text)}`);
    values[name] = kind === "switch" ? !negated : 0;
  } else if (kind === "level" && text === undefined) {
    values[name] = 1;
  } else {
    readInto(values, row, `-o ${label}`, text ?? "", errors);
  }
}

/**
 * Rewrites the forms that getopt_long takes (`-vv`, `-m64`, `-uroot`, `-p -1`, `--port 1`) as `--name` and
 * `--name=value`, which are unambiguous.
 */
function toLongForm(
  options: OptionIndex,
  argv: readonly string[],
  errors: string[],
): string[] {
  const long: string[] = [];
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index]!;
    if (argument === "--") {
      long.push(...argv.slice(index));
      break;
    }
    const name = /^--([^=]+)$/.exec(argument)?.[1];
    if (argument.startsWith("--")) {
      const row = options.byName.get(name ?? argument.slice(2, argument.indexOf("=")));
      if (row !== undefined && !takesValue(row) && name === undefined) {
        errors.push(`${flagText(row)}: takes no value`);
      } else if (row !== undefined && takesValue(row) && name !== undefined) {
        index = pushValue(long, row, argv, index, errors);
      } else {
        long.push(argument);
      }
    } else if (argument.startsWith("-") && argument.length > 1) {
      index = expandLetters(options, long, argv, index, errors);
    } else {
      long.push(argument);
    }
  }
  return long;
}

/**
 * Rewrites `-vv`, `-vMm64`: letters up to the first that takes a value, which is the rest of the word or the next word.
 *
 * @returns The index of the last word consumed.
 */
function expandLetters(
  options: OptionIndex,
  long: string[],
  argv: readonly string[],
  index: number,
  errors: string[],
): number {
  const argument = argv[index]!;
  for (let at = 1; at < argument.length; at++) {
    const row = options.byLetter.get(argument[at]!);
    if (row === undefined) {
      errors.push(
        `unknown option -${argument[at]}${didYouMean(`-${argument}`, options.longFlags)}`,
      );
      return index;
    }
    if (!takesValue(row)) {
      long.push(`--${row[0]}`);
    } else if (at + 1 < argument.length) {
      long.push(`--${row[0]}=${argument.slice(at + 1)}`);
      return index;
    } else {
      return pushValue(long, row, argv, index, errors);
    }
  }
  return index;
}

function pushValue(
  long: string[],
  row: OptionRow,
  argv: readonly string[],
  index: number,
  errors: string[],
): number {
  if (index + 1 >= argv.length) {
    errors.push(`${flagText(row)}: needs a value (${row[3]})`);
    return index;
  }
  long.push(`--${row[0]}=${argv[index + 1]}`);
  return index + 1;
}

/** Names an option: `-p (--port)`, or `--io` if it has no letter. */
function flagText(row: OptionRow): string {
  return row[1] === "" ? `--${row[0]}` : `-${row[1]} (--${row[0]})`;
}

function unknownFlag(options: OptionIndex, argument: string): string {
  const flag = argument.replace(/=.*$/s, "");
  return `unknown option ${flag}${didYouMean(flag, options.longFlags)}`;
}

function unknownExtended(label: string): string {
  const unsupported = UNSUPPORTED_EXTENDED.find(([prefix]) => label.startsWith(prefix));
  if (unsupported !== undefined) return `-o ${label} is not supported: ${unsupported[1]}`;
  return `unknown option -o ${label}${didYouMean(label, EXTENDED_WORDS)}`;
}
