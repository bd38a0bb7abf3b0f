import type { Mutant } from "./operators.ts";

/** What the tests say of a mutant. */
export type Verdict =
  | { readonly kind: "caught"; readonly by: string }
  /** `tests`: files that passed with it. */
  | { readonly kind: "survives"; readonly tests: readonly string[] }
  /** No test file that passes without it reaches it in time. */
  | { readonly kind: "untested" }
  /** It is no mutant: another one is drawn. */
  | { readonly kind: "does not compile" };

/** The first line of a file of results. */
interface Header {
  readonly seed: number;
  /** A hash of the source: its mutants are others after a change. */
  readonly source: number;
}

/** The verdicts of a run. With a file, a line of JSON each, so that a run that ended can be continued. */
export class Results {
  readonly seed: number;
  readonly #file: string | undefined;
  readonly #verdicts = new Map<string, Verdict>();

  /**
   * @param file Continued when it exists.
   * @param seed Undefined: the file's, or one that `draw` returns.
   * @throws RangeError when the file is of another seed or source.
   */
  constructor(
    file: string | undefined,
    source: number,
    seed: number | undefined,
    draw: () => number,
  ) {
    const [header, ...rows] = file === undefined ? [] : linesOf(file);
    this.#file = file;
    this.seed = seed ?? (header as Header | undefined)?.seed ?? draw();
    if (header === undefined) {
      this.#append({ seed: this.seed, source });
      return;
    }
    const { seed: itsSeed, source: itsSource } = header as Header;
    if (itsSource !== source) throw new RangeError(`${file} has verdicts on another source`);
    if (itsSeed !== this.seed) throw new RangeError(`${file} is of --seed ${itsSeed}`);
    for (const { mutant, verdict } of rows as { mutant: string; verdict: Verdict }[]) {
      this.#verdicts.set(mutant, verdict);
    }
  }

  has(mutant: Mutant): boolean {
    return this.#verdicts.has(nameOf(mutant));
  }

  add(mutant: Mutant, verdict: Verdict): void {
    this.#verdicts.set(nameOf(mutant), verdict);
    this.#append({ mutant: nameOf(mutant), verdict });
  }

  /** Returns how many mutants have a verdict of that kind. */
  count(kind: Verdict["kind"]): number {
    return [...this.#verdicts.values()].filter((verdict) => verdict.kind === kind).length;
  }

  /** Mutants with a verdict; those that do not compile are none. */
  get tried(): number {
    return this.#verdicts.size - this.count("does not compile");
  }

  #append(row: unknown): void {
    if (this.#file === undefined) return;
    Deno.writeTextFileSync(this.#file, `${JSON.stringify(row)}\n`, { append: true });
  }
}

function nameOf({ file, start, end, operator, replacement }: Mutant): string {
  return `${file} ${start}-${end} ${operator}: ${replacement}`;
}

/** Returns what the file's lines say. Removes the last one from the file if it was cut off. */
function linesOf(file: string): unknown[] {
  try {
    const text = Deno.readTextFileSync(file);
    const whole = text.slice(0, text.lastIndexOf("\n") + 1);
    if (whole !== text) Deno.writeTextFileSync(file, whole);
    return whole.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
