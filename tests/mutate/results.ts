import { hash32 } from "../support/seed.ts";
import type { Mutant } from "./operators.ts";
import { appendRow, rowsOf } from "./test_files.ts";

/** The tests' verdict on a mutant. */
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

/** The mutants that the verdicts are on. */
export interface Tree {
  /** The text of each file of the source. */
  readonly texts: ReadonlyMap<string, string>;
  /** A hash of each test file, with what it reads. */
  readonly tests: ReadonlyMap<string, number>;
}

/** A line of a file of results. */
interface Row {
  readonly mutant: string;
  readonly file: string;
  /** A hash of the file's text: its mutants are others after a change. */
  readonly text: number;
  /** A hash of all tests. */
  readonly tests: number;
  /** Of a survivor: the hashes of the test files that passed with it. */
  readonly passed: Readonly<Record<string, number | undefined>>;
  readonly verdict: Verdict;
}

/**
 * The verdicts of a run. With a file, a line of JSON each, so that a run that ended can be continued, also after
 * changes: verdicts on files that changed are left out, and what no test caught is judged anew when tests changed, by
 * those that it did not pass already.
 */
export class Results {
  readonly seed: number;
  readonly #file: string | undefined;
  readonly #tree: Tree;
  readonly #testsHash: number;
  readonly #verdicts = new Map<string, Verdict>();
  readonly #passed = new Map<string, ReadonlySet<string>>();

  /**
   * @param file Continued when it exists.
   * @param seed Undefined: the file's, or one that `draw` returns.
   * @throws RangeError when the file is of another seed.
   */
  constructor(file: string | undefined, tree: Tree, seed: number | undefined, draw: () => number) {
    const [header, ...rows] = rowsOf<unknown>(file);
    this.#file = file;
    this.#tree = tree;
    this.#testsHash = hash32(JSON.stringify([...tree.tests]));
    const itsSeed = (header as { seed: number } | undefined)?.seed;
    this.seed = seed ?? itsSeed ?? draw();
    if (itsSeed === undefined) this.#append({ seed: this.seed });
    else if (itsSeed !== this.seed) throw new RangeError(`${file} is of --seed ${itsSeed}`);
    for (const row of rows as Row[]) {
      if (row.text !== this.#textHash(row.file)) continue;
      const holds = row.tests === this.#testsHash || !UNCAUGHT.has(row.verdict.kind);
      if (holds) this.#verdicts.set(row.mutant, row.verdict);
      const same = Object.entries(row.passed).filter(([test, hash]) =>
        tree.tests.get(test) === hash
      );
      this.#passed.set(row.mutant, new Set(same.map(([test]) => test)));
    }
  }

  get(mutant: Mutant): Verdict | undefined {
    return this.#verdicts.get(nameOf(mutant));
  }

  /** Returns the test files that passed with a mutant in an earlier run, and are the same. */
  passed(mutant: Mutant): ReadonlySet<string> {
    return this.#passed.get(nameOf(mutant)) ?? new Set();
  }

  add(mutant: Mutant, verdict: Verdict): void {
    const name = nameOf(mutant);
    this.#verdicts.set(name, verdict);
    const { file } = mutant;
    const text = this.#textHash(file);
    const tests = verdict.kind === "survives" ? verdict.tests : [];
    const passed = Object.fromEntries(tests.map((test) => [test, this.#tree.tests.get(test)]));
    this.#append({ mutant: name, file, text, tests: this.#testsHash, passed, verdict });
  }

  #textHash(file: string): number {
    return hash32(this.#tree.texts.get(file) ?? "");
  }

  #append(row: Row | { readonly seed: number }): void {
    appendRow(this.#file, row);
  }
}

/** Returns what tells a mutant from all others. */
export function nameOf({ file, start, end, operator, replacement }: Mutant): string {
  return `${file} ${start}-${end} ${operator}: ${replacement}`;
}
