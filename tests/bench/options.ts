import { parseArgs } from "@std/cli/parse-args";

/** Status of a mistake in the command line (sysexits.h). */
export const EX_USAGE = 64;

type Value = number | string | boolean | readonly number[] | readonly string[];

/** Default values of a bench's options, by name. */
export type Defaults = Readonly<Record<string, Value>>;

/** Allowed words of an option, by its name. */
export type Choices = Readonly<Record<string, readonly string[]>>;

/** The options' values, by name. Literal types are widened. */
export type Options<D extends Defaults> = {
  readonly [Name in keyof D]: D[Name] extends number ? number
    : D[Name] extends string ? string
    : D[Name] extends boolean ? boolean
    : D[Name];
};

/** An unknown option, or a value of another type than the default's. */
export class OptionError extends Error {
  override readonly name = "OptionError";
}

/** Returns the options among `args`. Exits on a mistake, and on --help. */
export function readOptions<D extends Defaults>(
  args: readonly string[],
  defaults: D,
  choices: Choices = {},
): Options<D> {
  try {
    if (args.includes("--help")) throw new OptionError("");
    return parseOptions(args, defaults, choices);
  } catch (error) {
    if (!(error instanceof OptionError)) throw error;
    const usage = Object.entries(defaults).map(([name, value]) =>
      typeof value === "boolean" ? `[--${name}]` : `[--${name} ${value}]`
    );
    // deno-lint-ignore no-console
    console.error(`${error.message}\nOptions and their defaults: ${usage.join(" ")}`.trimStart());
    Deno.exit(error.message === "" ? 0 : EX_USAGE);
  }
}

/**
 * @param defaults Their types tell what is wanted. Lists have commas between their elements, or are
 *   given in parts; numbers are finite and not negative.
 * @throws OptionError
 */
export function parseOptions<D extends Defaults>(
  args: readonly string[],
  defaults: D,
  choices: Choices = {},
): Options<D> {
  const names = Object.keys(defaults);
  const isFlag = (name: string): boolean => typeof defaults[name] === "boolean";
  const given = parseArgs(args, {
    boolean: names.filter(isFlag),
    string: names.filter((name) => !isFlag(name)),
    collect: names.filter((name) => !isFlag(name)),
    unknown: (word) => {
      throw new OptionError(`There is no option ${word}`);
    },
  });
  const options = names.map((name) => {
    const words = given[name];
    const asked = Array.isArray(words) && words.length > 0 ? words as string[] : undefined;
    const value = isFlag(name)
      ? words
      : asked && valueOf(name, asked, defaults[name]!, choices[name]);
    return [name, value ?? defaults[name]];
  });
  return Object.fromEntries(options);
}

function valueOf(
  name: string,
  words: readonly string[],
  like: Value,
  choices?: readonly string[],
): Value {
  if (typeof like === "number") return numberOf(name, words.at(-1)!);
  const elements = typeof like === "object"
    ? words.flatMap((word) => word.split(","))
    : words.slice(-1);
  if (typeof like === "object" && typeof like[0] === "number") {
    return elements.map((word) => numberOf(name, word));
  }
  const strange = elements.find((word) => choices?.includes(word) === false);
  if (strange !== undefined) {
    throw new OptionError(`--${name} is "${strange}", not one of ${choices!.join(", ")}`);
  }
  return typeof like === "object" ? elements : elements[0]!;
}

function numberOf(name: string, word: string): number {
  const value = word === "" ? NaN : Number(word);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new OptionError(`--${name} is "${word}", not a number that is 0 or more`);
}
