import { EXTENDED_OPTIONS, type OptionRow, OPTIONS } from "./option_table.ts";
import { rangeText } from "./values.ts";

/** What one row looks like to its reader: the same words for `--help` and README. */
export interface OptionText {
  /** `-m, --memory-limit=<MiB>` or `-o idle_timeout=<seconds>`. */
  readonly flag: string;
  readonly preset: string;
  /** What values it takes; "" for switches and free text. */
  readonly range: string;
  readonly meaning: string;
}

const EXTENDED = new Set<OptionRow>(EXTENDED_OPTIONS);

/** Everything that is implemented, in the tables' order. */
export function optionTexts(): OptionText[] {
  const rows: OptionRow[] = [...OPTIONS, ...EXTENDED_OPTIONS];
  return rows.filter((row) => row[7] === "works").map((row) => ({
    flag: flagText(row),
    preset: row[6],
    range: Number.isNaN(row[4]) && row[2] !== "choice" ? "" : rangeText(row),
    meaning: row[8],
  }));
}

function flagText(row: OptionRow): string {
  const [name, letter, kind, unit] = row;
  const value = kind === "switch" || kind === "count"
    ? ""
    : `=<${kind === "choice" ? unit : unit.replaceAll(" ", "-")}>`;
  if (EXTENDED.has(row)) return `-o ${name}${value}`;
  return letter === "" ? `--${name}${value}` : `-${letter}, --${name}${value}`;
}

/** The answer to `--help`. */
export function helpText(version: string): string {
  const lines = [
    `leased ${version}: a memcached-compatible cache server with leases and locks`,
    "",
    "Usage: leased [options]",
    "",
  ];
  for (const { flag, preset, meaning } of optionTexts()) {
    const shown = preset === "" || preset === "on" ? "" : ` (${preset})`;
    if (flag.length > FLAG_WIDTH) {
      lines.push(`  ${flag}`, `${" ".repeat(FLAG_WIDTH + 4)}${meaning}${shown}`);
    } else lines.push(`  ${flag.padEnd(FLAG_WIDTH)}  ${meaning}${shown}`);
  }
  lines.push(
    "",
    "Sizes take k, m and g. What stands in parentheses holds when the option is left out.",
    "Other options of memcached are accepted where they mean nothing here, and refused by name where",
    "they ask for a part that this version does not have.",
  );
  return lines.join("\n");
}

const FLAG_WIDTH = 34;
