import { didYouMean } from "./values.ts";

/** The words that may stand before the options; "": the server. */
const SUBCOMMANDS = ["passwd", "proxy", "audit"] as const;
type Subcommand = "" | typeof SUBCOMMANDS[number];

/**
 * Splits a command line. `help` becomes `--help`. All subcommands have the version of the server, which prints it.
 *
 * @returns The server with all words if the first one is no subcommand.
 */
export function splitSubcommand(
  argv: readonly string[],
): { subcommand: Subcommand; rest: readonly string[] } {
  const [first, ...others] = argv;
  if (first === "help") return splitSubcommand([...others, "--help"]);
  const subcommand = SUBCOMMANDS.find((name) => name === first);
  if (subcommand === undefined) return { subcommand: "", rest: argv };
  const asksVersion = others[0] === "--version" || others[0] === "-V";
  return asksVersion ? { subcommand: "", rest: others } : { subcommand, rest: others };
}

/** Returns the mistake of a server's command line that begins with a word; null: it begins with an option. */
export function unknownSubcommand([first = ""]: readonly string[]): string | null {
  if (!/^[^-]/.test(first)) return null;
  const similar = didYouMean(first, [...SUBCOMMANDS, "help"]);
  return `unknown subcommand "${first}": there are ${SUBCOMMANDS.join(", ")} and help, ` +
    `and options start with -${similar}`;
}
