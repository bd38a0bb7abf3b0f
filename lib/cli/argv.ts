import {
  fieldOf,
  type OptionGroup,
  type OptionRow,
  type OptionValues,
  REMOVED_OPTIONS,
  type RowOf,
  type SERVER_OPTIONS,
  UNSUPPORTED_WORDS,
} from "./option_table.ts";
import { didYouMean, type OptionValue, readValue, valueOr } from "./values.ts";

/** An option that is accepted and has no effect. */
export interface IgnoredOption {
  /** As the command line names it: `-k (--lock-memory)`, `-o hashpower`. */
  readonly option: string;
  /** Why it has no effect, and what to use instead. */
  readonly reason: string;
}

/** A command line, read. A name that no row has does not compile. */
interface ParsedOptions<Row extends OptionRow> {
  readonly values: OptionValues<Row>;
  /** Names of the options that were given. */
  readonly given: ReadonlySet<Row[0]>;
  readonly ignored: readonly IgnoredOption[];
  /** All mistakes, one message each. */
  readonly errors: string[];
}

/** The command line of a server. */
export type ServerArguments = ParsedOptions<RowOf<typeof SERVER_OPTIONS>>;

/**
 * Reads a command line by the groups of its command. Never throws: `errors` lists all mistakes.
 *
 * @param operands The option of kind `list` that takes arguments without a dash; by default they are mistakes.
 * @param secondNames Names of earlier versions, and the options that they are.
 */
export function parseOptions<Groups extends readonly OptionGroup[]>(
  argv: readonly string[],
  groups: Groups,
  operands?: RowOf<Groups>[0],
  secondNames: Readonly<Record<string, RowOf<Groups>[0]>> = {},
): ParsedOptions<RowOf<Groups>> {
  const parser = new Parser(groups.flatMap(([, rows]) => rows), operands, secondNames);
  parser.parse(argv);
  return parser as unknown as ParsedOptions<RowOf<Groups>>;
}

/** The option whose value names other options. */
const WORDS = "extended";

/** Fills in the members of `ParsedOptions`. */
class Parser {
  readonly values: Record<string, OptionValue> = {};
  readonly given = new Set<string>();
  readonly ignored: IgnoredOption[] = [];
  readonly errors: string[] = [];
  readonly #rows: ReadonlyMap<string, OptionRow>;
  readonly #byLetter: ReadonlyMap<string, OptionRow>;

  readonly #operands: OptionRow | undefined;
  readonly #secondNames: ReadonlyMap<string, string>;

  constructor(
    rows: readonly OptionRow[],
    operands = "",
    secondNames: Readonly<Record<string, string>>,
  ) {
    this.#rows = new Map(rows.map((row) => [row[0], row]));
    this.#secondNames = new Map(Object.entries(secondNames));
    this.#operands = this.#rows.get(operands);
    this.#byLetter = new Map(rows.map((row) => [row[1], row]));
    for (const row of rows) this.values[fieldOf(row)] = presetOf(row);
  }

  parse(argv: readonly string[]): void {
    for (let at = 0; at < argv.length; at++) {
      const argument = argv[at]!;
      let wanting: OptionRow | undefined;
      if (argument === "--") continue;
      else if (argument.startsWith("--")) wanting = this.#readLong(argument.slice(2));
      else if (/^-./s.test(argument)) wanting = this.#readLetters(argument.slice(1));
      else if (this.#operands !== undefined) {
        this.#take(this.#operands, this.#operands[0], argument);
      } else if (!this.#isUnknown(argv[at - 1])) {
        this.errors.push(`unexpected argument "${argument}": options start with -`);
      }
      if (wanting === undefined) continue;
      at++;
      if (at < argv.length) this.#take(wanting, flagText(wanting), argv[at]);
      else this.errors.push(`${flagText(wanting)}: needs a value (${wanting[3]})`);
    }
  }

  /** Reads `name`, `no-name` or `name=value`. @returns The option whose value is the next argument. */
  #readLong(argument: string): OptionRow | undefined {
    const { name: given, text } = splitWord(argument);
    const name = this.#secondNames.get(given) ?? given;
    const row = this.#rows.get(name);
    const negated = row === undefined ? this.#negated(name) : undefined;
    if (negated !== undefined) this.#take(negated, `--${name}`, text, true);
    else if (row === undefined) this.errors.push(this.#unknown(`--${name}`));
    else if (text === undefined && takesValue(row)) return row;
    else this.#take(row, flagText(row), text);
    return undefined;
  }

  /**
   * Reads `vv`, `vMm64`: letters up to the first that takes a value, which is the rest of the word.
   *
   * @returns The option whose value is the next argument.
   */
  #readLetters(letters: string): OptionRow | undefined {
    for (let at = 0; at < letters.length; at++) {
      const row = this.#byLetter.get(letters[at]!);
      if (row === undefined) {
        this.errors.push(this.#unknown(`-${letters[at]}`, `--${letters}`));
        return undefined;
      }
      if (takesValue(row)) {
        if (at + 1 === letters.length) return row;
        this.#take(row, flagText(row), letters.slice(at + 1));
        return undefined;
      }
      this.#take(row, flagText(row), undefined);
    }
    return undefined;
  }

  /** Whether the argument is an unknown option, so that the next argument is probably its value. */
  #isUnknown(argument = ""): boolean {
    const name = /^--([^=]+)$/.exec(argument)?.[1];
    return name !== undefined && !this.#rows.has(name) && this.#negated(name) === undefined;
  }

  /** Reads one word of `-o`: `name`, `no_name` or `name=value`. */
  #readWord(word: string): void {
    const { name: label, text } = splitWord(word);
    const name = label.replaceAll("_", "-");
    const row = this.#rows.get(name);
    const negated = row === undefined ? this.#negated(name) : undefined;
    if (negated !== undefined) this.#take(negated, `-o ${label}`, text, true);
    else if (row?.[1] !== "-o") this.errors.push(this.#unknownWord(label));
    else this.#take(row, `-o ${label}`, takesValue(row) ? text ?? "" : text);
  }

  /** Returns the option that `no-name` turns off. */
  #negated(name: string): OptionRow | undefined {
    const row = name.startsWith("no-") ? this.#rows.get(name.slice(3)) : undefined;
    return row !== undefined && isNegatable(row) ? row : undefined;
  }

  /** Sets an option. Errors name it by `label`. */
  #take(row: OptionRow, label: string, text: string | undefined, isNegated = false): void {
    const [name, , kind, , , , , meaning, state] = row;
    const field = fieldOf(row);
    const isFirst = !this.given.has(name);
    this.given.add(name);
    if (state === "ignored" && isFirst) this.ignored.push({ option: label, reason: meaning });
    if (text === undefined) {
      if (kind === "count") this.values[field] = this.values[field] as number + 1;
      else this.values[field] = kind === "switch" ? !isNegated : Number(!isNegated);
      return;
    }
    const read = (): OptionValue => {
      if (isNegated || kind === "switch" || kind === "count") {
        throw new RangeError("takes no value");
      }
      return readValue(row, text);
    };
    const value = valueOr(null, read, this.errors, `${label} ${JSON.stringify(text)}`);
    if (value === null) return;
    if (name === WORDS) { for (const word of value as string[]) this.#readWord(word); }
    else if (kind !== "list" || isFirst) this.values[field] = value;
    else this.values[field] = [...this.values[field] as string[], ...value as string[]];
  }

  #unknown(flag: string, similar = flag): string {
    const successor = REMOVED_OPTIONS.get(flag.slice(2));
    if (successor !== undefined) return `${flag} is gone: ${successor}`;
    const known = [...this.#rows.values()].filter((row) => row[8] === undefined);
    return `unknown option ${flag}${didYouMean(similar, known.map((row) => `--${row[0]}`))}`;
  }

  #unknownWord(label: string): string {
    const unsupported = UNSUPPORTED_WORDS.find(([prefix]) => label.startsWith(prefix));
    if (unsupported !== undefined) return `-o ${label} is not supported: ${unsupported[1]}`;
    const known = [...this.#rows.values()].filter((row) => row[1] === "-o").flatMap((row) =>
      isNegatable(row) ? [row[0], `no-${row[0]}`] : [row[0]]
    );
    return `unknown option -o ${label}${
      didYouMean(label, known.map((name) => name.replaceAll("-", "_")))
    }`;
  }
}

function splitWord(word: string): { name: string; text: string | undefined } {
  const at = word.indexOf("=");
  return at < 0
    ? { name: word, text: undefined }
    : { name: word.slice(0, at), text: word.slice(at + 1) };
}

function takesValue([, , kind]: OptionRow): boolean {
  return kind !== "switch" && kind !== "count" && kind !== "level";
}

/** Whether the option has the form `no-name`: switches and levels among memcached's words of `-o`. */
function isNegatable([, letter, kind]: OptionRow): boolean {
  return letter === "-o" && (kind === "switch" || kind === "level");
}

/** Returns an option's default. A number without a default is NaN, a text "". */
function presetOf(row: OptionRow): OptionValue {
  const [, , kind, , , , preset] = row;
  if (kind === "switch") return preset === "on";
  if (kind === "count") return 0;
  if (preset !== "") return readValue(row, preset);
  if (kind === "list") return [];
  return kind === "text" || kind === "choice" ? "" : NaN;
}

/** Names an option: `-p (--port)`, or `--io` if it has no letter. */
function flagText([name, letter]: OptionRow): string {
  return letter === "" || letter === "-o" ? `--${name}` : `-${letter} (--${name})`;
}
