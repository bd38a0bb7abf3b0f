import manifest from "../../deno.json" with { type: "json" };
import { writeRefusal } from "../process/log.ts";
import { print } from "./command_line.ts";
import { ExitCode } from "./exit.ts";
import { EXIT_STATUS, helpText, NOTES, optionTexts } from "./help.ts";
import {
  AUDIT_OPTIONS,
  DOCTOR_OPTIONS,
  type OptionGroup,
  type OptionRow,
  SERVER_OPTIONS,
  TOP_OPTIONS,
  VIEWS_OPTIONS,
} from "./option_table.ts";
import { SUBCOMMANDS } from "./subcommand.ts";

/** A command line: that of the server, whose name is "", or of a subcommand. */
interface CommandLine {
  readonly name: string;
  readonly synopsis: string;
  readonly summary: string;
  readonly groups: readonly OptionGroup[];
  /** Words that its first argument may be. */
  readonly words: readonly string[];
}

const GROUPS: Readonly<Record<string, readonly OptionGroup[]>> = {
  rows: SERVER_OPTIONS,
  audit: AUDIT_OPTIONS,
  views: VIEWS_OPTIONS,
  top: TOP_OPTIONS,
  doctor: DOCTOR_OPTIONS,
};
/** Words that stand before the options of a subcommand. */
const FIRST_WORDS: Readonly<Record<string, readonly string[]>> = {
  rows: ["init"],
  views: ["check", "suggest"],
};
const NAMES = SUBCOMMANDS.map(([name]) => name);
const COMMAND_LINES: readonly CommandLine[] = [
  {
    name: "",
    synopsis: "[options]",
    summary: "run the server",
    groups: SERVER_OPTIONS,
    words: [...NAMES, "help"],
  },
  ...SUBCOMMANDS.map(([name, synopsis, summary]) => ({
    name,
    synopsis,
    summary,
    groups: GROUPS[name] ?? [],
    words: name === "completion" ? synopsis.split("|") : FIRST_WORDS[name] ?? [],
  })),
  { name: "help", synopsis: "[subcommand]", summary: "", groups: [], words: NAMES },
];

/** Returns the options that work, of all groups. */
function rowsOf(groups: readonly OptionGroup[]): OptionRow[] {
  return groups.flatMap(([, rows]) => rows).filter((row) => row[8] === undefined);
}

/** Returns the man page leased(1), for man(7) macros. */
export function manPage(version: string): string {
  const titled = COMMAND_LINES.filter(({ name, groups }) => name !== "rows" && groups.length > 0);
  const [first] = helpText(version).split("\n");
  return [
    `.TH LEASED 1 "" "leased ${version}" "User Commands"`,
    ".SH NAME",
    roff(`leased - ${first!.slice(first!.indexOf(": ") + 2)}`),
    ".SH SYNOPSIS",
    ...COMMAND_LINES.flatMap(({ name, synopsis }, at) => [
      ...at > 0 ? [".br"] : [],
      `.B leased${name === "" ? "" : ` ${name}`}`,
      ...synopsis === "" ? [] : [roff(synopsis)],
    ]),
    ".SH SUBCOMMANDS",
    ...SUBCOMMANDS.flatMap(([name, , summary]) => [".TP", `.B ${name}`, roff(summary)]),
    ...titled.flatMap(({ name, groups }) => [
      name === "" ? ".SH OPTIONS" : `.SH OPTIONS OF LEASED ${name.toUpperCase()}`,
      ...optionLines(groups),
    ]),
    ".SH NOTES",
    roff(NOTES),
    ".SH EXIT STATUS",
    ...EXIT_STATUS.flatMap((line) => {
      const [, status, meaning] = /^(\d+) +(.*)$/.exec(line)!;
      return [".TP", `.B ${status}`, roff(meaning!)];
    }),
    ".SH SEE ALSO",
    ".BR memcached (1)",
    "",
  ].join("\n");
}

function optionLines(groups: readonly OptionGroup[]): string[] {
  let title = "";
  return optionTexts(groups).flatMap(({ group, flag, word, preset, meaning }) => {
    const head = group === title ? [] : [`.SS ${roff(group)}`];
    title = group;
    const notes = [preset === "" ? "" : `default: ${preset}`, word].filter((each) => each !== "");
    const text = notes.length === 0 ? meaning : `${meaning} (${notes.join("; ")})`;
    return [...head, ".TP", `.B ${roff(flag)}`, roff(text)];
  });
}

/** Escapes a line of text for roff. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^[.']/, "\\&$&");
}

/** `leased man` */
export function printManual(): ExitCode {
  print(manPage(manifest.version));
  return ExitCode.OK;
}

/** `leased completion <shell>` */
export function printCompletion([shell = ""]: readonly string[]): ExitCode {
  const text = completionText(shell);
  if (text === null) {
    const usage = `usage: leased completion ${Object.keys(SHELLS).join("|")}`;
    if (/^(-h|--help)$/.test(shell)) {
      print(`${usage}\n`);
      return ExitCode.OK;
    }
    writeRefusal("text", "usage_error", usage);
    return ExitCode.USAGE;
  }
  print(text);
  return ExitCode.OK;
}

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

/** Returns a shell's completions, or null if there are none for this word. */
export function completionText(shell: string): string | null {
  return Object.hasOwn(SHELLS, shell) ? SHELLS[shell as keyof typeof SHELLS]() : null;
}

/** An option for a shell. */
interface Flag {
  readonly name: string;
  /** One letter, or "". */
  readonly letter: string;
  readonly takesValue: boolean;
  /** Values to choose from. */
  readonly choices: readonly string[];
  readonly isFile: boolean;
  readonly meaning: string;
}

function flagsOf(groups: readonly OptionGroup[]): Flag[] {
  return rowsOf(groups).map(([name, letter, kind, unit, , , , meaning]) => ({
    name,
    letter: letter.length === 1 && letter !== "-" ? letter : "",
    takesValue: kind !== "switch" && kind !== "count",
    choices: kind === "choice" ? unit.split("|") : [],
    isFile: unit === "path" || unit === "file",
    meaning,
  }));
}

function bashCompletion(): string {
  const spellings = ({ name, letter }: Flag): string[] =>
    letter === "" ? [`--${name}`] : [`--${name}`, `-${letter}`];
  const all = new Map(
    COMMAND_LINES.flatMap(({ groups }) => flagsOf(groups)).map((flag) => [flag.name, flag]),
  );
  const choices = [...all.values()].filter((flag) => flag.choices.length > 0).map((flag) =>
    `    ${spellings(flag).join("|")}) COMPREPLY=($(compgen -W '${
      flag.choices.join(" ")
    }' -- "$cur")); return ;;`
  );
  const files = [...all.values()].filter(({ isFile }) => isFile).flatMap(spellings);
  return [
    "# bash completion of leased: source <(leased completion bash)",
    "_leased() {",
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words",
    "  case $prev in",
    ...choices,
    `    ${files.join("|")}) COMPREPLY=($(compgen -f -- "$cur")); return ;;`,
    "  esac",
    "  case ${COMP_WORDS[1]} in",
    ...[...COMMAND_LINES].reverse().map(({ name, groups, words }) => {
      const flags = flagsOf(groups).map((flag) => `--${flag.name}`);
      return `    ${name === "" ? "*" : name}) words='${[...words, ...flags].join(" ")}' ;;`;
    }),
    "  esac",
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "}",
    "complete -o bashdefault -F _leased leased",
    "",
  ].join("\n");
}

/** Writes a text between single quotes, for sh and zsh. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function zshCompletion(): string {
  const specs = ({ name, groups, words }: CommandLine): string[] => [
    ...name === "" || words.length === 0 ? [] : [quoted(`1: :(${words.join(" ")})`)],
    ...flagsOf(groups).map((flag) => {
      const { letter, takesValue, choices, isFile, meaning } = flag;
      const about = meaning.replace(/[\[\]:\\]/g, "\\$&");
      const values = isFile ? "_files" : choices.length > 0 ? `(${choices.join(" ")})` : "";
      const argument = takesValue ? `:value:${values}` : "";
      const spec = quoted(`[${about}]${argument}`);
      return letter === ""
        ? `--${flag.name}${takesValue ? "=" : ""}${spec}`
        : `{-${letter}${takesValue ? "+" : ""},--${flag.name}${takesValue ? "=" : ""}}${spec}`;
    }),
  ];
  const branch = (line: CommandLine): string =>
    `    ${line.name === "" ? "*" : line.name}) _arguments ${specs(line).join(" \\\n      ")} ;;`;
  return [
    "#compdef leased",
    '# zsh completion of leased: leased completion zsh > "${fpath[1]}/_leased"',
    "_leased() {",
    "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then",
    `    local -a subcommands=(${
      SUBCOMMANDS.map(([name, , about]) => quoted(`${name}:${about}`)).join(" ")
    })`,
    "    _describe subcommand subcommands",
    "    return",
    "  fi",
    "  case $words[2] in",
    `    ${NAMES.join("|")}|help) shift words; (( CURRENT-- )) ;;`,
    "  esac",
    "  case $words[1] in",
    ...[...COMMAND_LINES].reverse().map(branch),
    "  esac",
    "}",
    '_leased "$@"',
    "",
  ].join("\n");
}

function fishCompletion(): string {
  const fishQuoted = (text: string): string => `'${text.replace(/['\\]/g, "\\$&")}'`;
  const seen = (name: string): string =>
    name === ""
      ? `'not __fish_seen_subcommand_from ${NAMES.join(" ")} help'`
      : `'__fish_seen_subcommand_from ${name}'`;
  return [
    "# fish completion of leased: leased completion fish | source",
    "complete -c leased -f",
    ...SUBCOMMANDS.map(([name, , about]) =>
      `complete -c leased -n ${seen("")} -a ${name} -d ${fishQuoted(about)}`
    ),
    ...COMMAND_LINES.flatMap(({ name, groups, words }) => [
      ...name === "" || words.length === 0
        ? []
        : [`complete -c leased -n ${seen(name)} -a '${words.join(" ")}'`],
      ...flagsOf(groups).map(({ name: long, letter, takesValue, choices, isFile, meaning }) =>
        [
          `complete -c leased -n ${seen(name)} -l ${long}`,
          ...letter === "" ? [] : [`-s ${letter}`],
          ...isFile ? ["-rF"] : takesValue ? ["-x"] : [],
          ...choices.length === 0 ? [] : [`-a '${choices.join(" ")}'`],
          `-d ${fishQuoted(meaning)}`,
        ].join(" ")
      ),
    ]),
    "",
  ].join("\n");
}
