import { parseArgs } from "@std/cli/parse-args";

/** Status of a mistake in the command line (sysexits.h). */
export const EX_USAGE = 64;

/** A word, or words, of a fixed set. */
export interface Choice<V extends string | readonly string[] = string | readonly string[]> {
  readonly initial: V;
  readonly choices: readonly string[];
}

/** Default values of options, by name: their types tell what is wanted. */
export type Defaults = Readonly<
  Record<string, number | string | boolean | readonly number[] | readonly string[] | Choice>
>;

/** The options' values, by name. Literal types are widened. */
export type Options<D extends Defaults> = {
  readonly [Name in keyof D]: D[Name] extends Choice<infer V> ? V
    : D[Name] extends number ? number
    : D[Name] extends string ? string
    : D[Name] extends boolean ? boolean
    : D[Name];
};

/** One of these words, by default the last. */
export function oneOf(...choices: readonly string[]): Choice<string> {
  return { initial: choices.at(-1)!, choices };
}

/** Some of these words, by default all. */
export function someOf(
  choices: readonly string[],
  initial: readonly string[] = choices,
): Choice<readonly string[]> {
  return { initial, choices };
}

/** An unknown option, or a value of another type than the default's. */
export class OptionError extends Error {
  override readonly name = "OptionError";
}

/** Options, and the words among them that are none. */
export interface Line<D extends Defaults> {
  readonly options: Options<D>;
  readonly words: readonly string[];
}

/** Returns the options among `args`. Exits on a mistake, on any other word, and on --help. */
export function readOptions<D extends Defaults>(args: readonly string[], defaults: D): Options<D> {
  return readLine(args, defaults, null).options;
}

/**
 * Returns the options and the other words. Exits on a mistake, and on --help.
 *
 * @param word The meaning of a word that is no option; null: none may be given.
 */
export function readLine<D extends Defaults>(
  args: readonly string[],
  defaults: D,
  word: string | null,
): Line<D> {
  try {
    if (args.includes("--help")) throw new OptionError("");
    const line = parseLine(args, defaults);
    if (word === null && line.words.length > 0) {
      throw new OptionError(`There is no option ${line.words[0]}`);
    }
    return line;
  } catch (error) {
    if (!(error instanceof OptionError)) throw error;
    const usage = Object.keys(defaults).map((name) => {
      const value = initialOf(defaults, name);
      return typeof value === "boolean" ? `[--${name}]` : `[--${name} ${value}]`;
    });
    const words = word === null ? "" : ` [${word}…]`;
    // deno-lint-ignore no-console
    console.error(
      `${error.message}\nOptions and their defaults: ${usage.join(" ")}${words}`.trimStart(),
    );
    Deno.exit(error.message === "" ? 0 : EX_USAGE);
  }
}

/**
 * @param defaults Lists have commas between their elements, or are given in parts; numbers are
 *   finite and not negative.
 * @throws OptionError
 */
export function parseLine<D extends Defaults>(args: readonly string[], defaults: D): Line<D> {
  const flags = Object.keys(defaults).filter((name) => typeof defaults[name] === "boolean");
  const others = Object.keys(defaults).filter((name) => !flags.includes(name));
  const given = parseArgs(args, {
    boolean: flags,
    string: others,
    collect: others,
    unknown: (word, name) => {
      if (name !== undefined) throw new OptionError(`There is no option ${word}`);
    },
  }) as Record<string, unknown>;
  const value = (name: string): unknown => {
    const words = given[name];
    if (flags.includes(name)) return words;
    const isGiven = Array.isArray(words) && words.length > 0;
    return isGiven ? valueOf(defaults, name, words) : initialOf(defaults, name);
  };
  const named = [...flags, ...others].map((name) => [name, value(name)]);
  return { options: Object.fromEntries(named), words: (given._ as unknown[]).map(String) };
}

function initialOf(defaults: Defaults, name: string): Exclude<Defaults[string], Choice> {
  const like = defaults[name]!;
  return typeof like === "object" && "initial" in like ? like.initial : like;
}

/** @param words All that were given for the option, in their order. */
function valueOf(defaults: Defaults, name: string, words: readonly string[]): unknown {
  const like = initialOf(defaults, name);
  const isList = typeof like === "object";
  const elements = isList ? words.flatMap((word) => word.split(",")) : words.slice(-1);
  const choices = (defaults[name] as Choice).choices ?? elements;
  const values = elements.map((word) => {
    if (typeof (isList ? like[0] : like) === "number") return numberOf(name, word);
    if (choices.includes(word)) return word;
    throw new OptionError(`--${name} is "${word}", not one of ${choices.join(", ")}`);
  });
  return isList ? values : values[0];
}

function numberOf(name: string, word: string): number {
  const value = word === "" ? NaN : Number(word);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new OptionError(`--${name} is "${word}", not a number that is 0 or more`);
}
