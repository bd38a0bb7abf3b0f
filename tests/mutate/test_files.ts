import { hash32 } from "../support/seed.ts";
import type { Source } from "../support/sources.ts";

/** A test file and what it runs, also in threads and processes that it starts. */
export interface TestFile {
  readonly path: string;
  /** CPU time that it takes, with its processes: the same on a busy machine. */
  readonly cpuSec: number;
  /** The lines that it runs, by file; null: the file has changed since, and any of its lines may be run. */
  readonly lines: ReadonlyMap<string, ReadonlySet<number> | null>;
}

/** A line of a file of measured tests. */
interface Row {
  readonly test: string;
  /** A hash of the test file's text. */
  readonly text: number;
  readonly cpuSec: number;
  /** By file of the source: a hash of its text, and the lines. */
  readonly lines: Readonly<Record<string, readonly [text: number, lines: readonly number[]]>>;
}

/**
 * The lines that test files were seen to run. With a file, a line of JSON each, so that later runs need not measure
 * them again. A measurement ends with the text of the test file. When other files have changed, it is less exact, which
 * costs time only: a mutant is judged by tests that are run.
 */
export class MeasuredTests {
  readonly #file: string | undefined;
  readonly #hashes: ReadonlyMap<string, number>;
  readonly #tests = new Map<string, TestFile>();

  /** @param file Continued when it exists. */
  constructor(file: string | undefined, sources: readonly Source[]) {
    this.#file = file;
    this.#hashes = new Map(sources.map(({ path, text }) => [path, hash32(text)]));
    for (const row of rowsOf<Row>(file)) {
      if (row.text !== this.#hashes.get(row.test)) continue;
      const lines = Object.entries(row.lines).map(([path, [text, lines]]) =>
        [path, text === this.#hashes.get(path) ? new Set(lines) : null] as const
      );
      this.#tests.set(row.test, { path: row.test, cpuSec: row.cpuSec, lines: new Map(lines) });
    }
  }

  get(path: string): TestFile | undefined {
    return this.#tests.get(path);
  }

  add(test: TestFile): void {
    this.#tests.set(test.path, test);
    const hash = (path: string): number => this.#hashes.get(path) ?? 0;
    const lines = [...test.lines].map(([path, lines]) => [path, [hash(path), [...lines ?? []]]]);
    const row = { test: test.path, text: hash(test.path), cpuSec: test.cpuSec };
    appendRow(this.#file, { ...row, lines: Object.fromEntries(lines) } satisfies Row);
  }
}

/** Appends a line of JSON to a file, if there is one. */
export function appendRow(file: string | undefined, row: unknown): void {
  if (file === undefined) return;
  Deno.writeTextFileSync(file, `${JSON.stringify(row)}\n`, { append: true });
}

/** Returns what a file's lines of JSON say; none without a file. Removes the last one from it if it was cut off. */
export function rowsOf<Row>(file: string | undefined): Row[] {
  if (file === undefined) return [];
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
