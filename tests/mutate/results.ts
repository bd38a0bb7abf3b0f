import { hash32 } from "../support/seed.ts";
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

/** Verdicts that a new test may change. */
const UNCAUGHT: ReadonlySet<Verdict["kind"]> = new Set(["survives", "untested"]);

/** What the verdicts are on. */
export interface Tree {
  /** The text of each file of the source. */
  readonly texts: ReadonlyMap<string, string>;
  /** A hash of all tests. */
  readonly tests: number;
}

/** A line of a file of results. */
interface Row {
  readonly mutant: string;
  readonly file: string;
  /** A hash of the file's text: its mutants are others after a change. */
  readonly text: number;
  readonly tests: number;
  readonly verdict: Verdict;
}

/**
 * The verdicts of a run. With a file, a line of JSON each, so that a run that ended can be continued, also after
 * changes: verdicts on files that changed are left out, and what no test caught is judged anew when tests changed.
 */
export class Results {
  readonly seed: number;
  readonly #file: string | undefined;
  readonly #tree: Tree;
  readonly #verdicts = new Map<string, Verdict>();

  /**
   * @param file Continued when it exists.
   * @param seed Undefined: the file's, or one that `draw` returns.
   * @throws RangeError when the file is of another seed.
   */
  constructor(file: string | undefined, tree: Tree, seed: number | undefined, draw: () => number) {
    const [header, ...rows] = file === undefined ? [] : linesOf(file);
    this.#file = file;
    this.#tree = tree;
    const itsSeed = (header as { seed: number } | undefined)?.seed;
    this.seed = seed ?? itsSeed ?? draw();
    if (itsSeed === undefined) this.#append({ seed: this.seed });
    else if (itsSeed !== this.seed) throw new RangeError(`${file} is of --seed ${itsSeed}`);
    for (const row of rows as Row[]) {
      if (this.#holds(row)) this.#verdicts.set(row.mutant, row.verdict);
    }
  }

  has(mutant: Mutant): boolean {
    return this.#verdicts.has(nameOf(mutant));
  }

  add(mutant: Mutant, verdict: Verdict): void {
    const name = nameOf(mutant);
    this.#verdicts.set(name, verdict);
    const { file } = mutant;
    const text = this.#textHash(file);
    this.#append({ mutant: name, file, text, tests: this.#tree.tests, verdict });
  }

  /** Returns how many mutants have a verdict of that kind. */
  count(kind: Verdict["kind"]): number {
    return [...this.#verdicts.values()].filter((verdict) => verdict.kind === kind).length;
  }

  /** Mutants with a verdict; those that do not compile are none. */
  get tried(): number {
    return this.#verdicts.size - this.count("does not compile");
  }

  #holds({ file, text, tests, verdict }: Row): boolean {
    if (text !== this.#textHash(file)) return false;
    return tests === this.#tree.tests || !UNCAUGHT.has(verdict.kind);
  }

  #textHash(file: string): number {
    return hash32(this.#tree.texts.get(file) ?? "");
  }

  #append(row: Row | { readonly seed: number }): void {
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
