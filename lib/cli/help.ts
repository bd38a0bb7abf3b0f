import { type OptionGroup, type OptionRow, SERVER_OPTIONS } from "./option_table.ts";
import { SUBCOMMANDS } from "./subcommand.ts";
import { rangeText } from "./values.ts";

/** One option as `--help` and the documentation describe it. */
export interface OptionText {
  /** The title of its group in `--help`. */
  readonly group: string;
  /** `-m, --memory-limit=<MiB>` or `--idle-timeout=<seconds>`. */
  readonly flag: string;
  /** memcached's spelling: `-o idle_timeout`; "": none, or the same. */
  readonly word: string;
  /** The default; "": none. */
  readonly preset: string;
  /** The allowed values; "" for switches and free text. */
  readonly range: string;
  readonly meaning: string;
}

const LINE_WIDTH = 80;
const FLAG_WIDTH = 30;
const MEANING_AT = FLAG_WIDTH + 4;
const SYNOPSIS_WIDTH = 34;

export const EXIT_STATUS = [
  "0   stopped by a signal or by the shutdown command",
  "64  a mistake in the command line",
  "70  a thread failed, or the store check at exit (-vvv) failed",
  "71  cannot listen on an address, start a thread, or use a file",
  "77  deno run denies a permission that the options need",
] as const;

export const NOTES =
  "Sizes take the suffix k, m or g. Other options of memcached are accepted if they are not needed " +
  "here; the server logs why and what to use instead. Words of -o that it cannot honour, such as " +
  "those for storage outside of memory, are errors.";

/** Describes every implemented option, in the order of `--help`. */
export function optionTexts(groups: readonly OptionGroup[]): OptionText[] {
  const hasWords = groups.some(([, rows]) => rows.some(([name]) => name === "extended"));
  return groups.flatMap(([group, rows]) =>
    rows.filter((row) => row[8] === undefined).map((row) => ({
      group,
      flag: flagText(row),
      word: hasWords && row[1] === "-o" ? `-o ${row[0].replaceAll("-", "_")}` : "",
      preset: row[6],
      range: Number.isNaN(row[4]) && row[2] !== "choice" ? "" : rangeText(row),
      meaning: row[7],
    }))
  );
}

function flagText(row: OptionRow): string {
  const [name, letter, kind, unit] = row;
  const value = kind === "switch" || kind === "count"
    ? ""
    : `=<${kind === "choice" ? unit : unit.replaceAll(" ", "-")}>`;
  return letter === "" || letter === "-o" ? `--${name}${value}` : `-${letter}, --${name}${value}`;
}

/** Returns the text of `--help`, at most 80 columns wide. */
export function helpText(version: string): string {
  return [
    `leased ${version}: a memcached-compatible cache server with leases and locks`,
    "",
    "Usage: leased [options]    run the server",
    "       leased <subcommand> [arguments]",
    "",
    "Subcommands (leased help <subcommand> has their options):",
    ...SUBCOMMANDS.map(([name, synopsis, summary]) =>
      `  ${`${name} ${synopsis}`.padEnd(SYNOPSIS_WIDTH)}${summary}`
    ),
    ...helpLines(optionTexts(SERVER_OPTIONS)),
    "",
    "Exit status:",
    ...EXIT_STATUS.map((line) => `  ${line}`),
    "",
    ...wrap(NOTES.split(" "), LINE_WIDTH),
  ].join("\n");
}

/** Returns lines that describe options, at most 80 columns wide. */
export function helpLines(texts: readonly OptionText[]): string[] {
  const lines: string[] = [];
  let title = "";
  for (const { group, flag, word, preset, meaning } of texts) {
    if (group !== title) lines.push("", `${group}:`);
    title = group;
    const shown = preset === "" || preset === "on" ? "" : `default: ${preset}`;
    const notes = [shown, word].filter((note) => note !== "").join(";\n");
    const words = meaning.split(" ").concat(notes === "" ? [] : `(${notes})`.split("\n"));
    lines.push(...optionLines(flag.startsWith("--") ? `    ${flag}` : flag, words));
  }
  return lines;
}

/** Returns a flag with its description beside or below it. */
function optionLines(flag: string, words: readonly string[]): string[] {
  const indent = " ".repeat(MEANING_AT);
  const lines = wrap(words, LINE_WIDTH - MEANING_AT).map((line) => indent + line);
  if (flag.length > FLAG_WIDTH) return [`  ${flag}`, ...lines];
  return [`  ${flag.padEnd(FLAG_WIDTH)}  ${lines[0]!.trimStart()}`, ...lines.slice(1)];
}

/** Fills lines of at most `width` characters. A longer word stands alone. */
function wrap(words: readonly string[], width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of words) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    line += (line === "" ? "" : " ") + word;
  }
  return [...lines, line];
}
