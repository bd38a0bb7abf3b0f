import { didYouMean } from "./values.ts";

/** A word that may stand before the options, its arguments, and its purpose in one line. */
export type Subcommand = readonly [name: string, synopsis: string, summary: string];

export const SUBCOMMANDS = [
  ["rows", "[init] [options]", "serve the rows of a database on port 11311"],
  ["audit", "[options]", "compare caches with the database behind them"],
  ["views", "check|suggest [options]", "check a file of views, or suggest one"],
  ["top", "[server ...] [options]", "watch servers in the terminal"],
  ["doctor", "[server ...] [options]", "find faults of this machine and of servers"],
  ["passwd", "<user> [level]", "print a line for the file of -Y"],
  ["man", "", "print the man page: leased man | man -l -"],
  ["completion", "bash|zsh|fish", "print completions for a shell"],
] as const satisfies readonly Subcommand[];
/** Names of earlier versions. */
const SECOND_NAMES: Readonly<Record<string, string>> = { proxy: "rows" };

/** "": the server. */
export type SubcommandName = "" | typeof SUBCOMMANDS[number][0];

/**
 * Splits a command line. `help` becomes `--help`. All subcommands have the version of the server, which prints it.
 *
 * @returns The server with all words if the first one is no subcommand.
 */
export function splitSubcommand(
  argv: readonly string[],
): { subcommand: SubcommandName; rest: readonly string[] } {
  const [first, ...others] = argv;
  if (first === "help") return splitSubcommand([...others, "--help"]);
  const wanted = SECOND_NAMES[first ?? ""] ?? first;
  const subcommand = SUBCOMMANDS.find(([name]) => name === wanted)?.[0];
  if (subcommand === undefined) return { subcommand: "", rest: argv };
  // Words like `init` may stand before the first option.
  const option = others.find((word) => word.startsWith("-"));
  const asksVersion = option === "--version" || option === "-V";
  return asksVersion ? { subcommand: "", rest: [option] } : { subcommand, rest: others };
}

/** Returns the mistake of a server's command line that begins with a word; null: it begins with an option. */
export function unknownSubcommand([first = ""]: readonly string[]): string | null {
  if (!/^[^-]/.test(first)) return null;
  const names = SUBCOMMANDS.map(([name]) => name);
  const similar = didYouMean(first, [...names, "help"]);
  return `unknown subcommand "${first}": there are ${names.join(", ")} and help, ` +
    `and options start with -${similar}`;
}
