import type { Source } from "../support/sources.ts";
import type { Copy } from "./copy.ts";
import type { MeasuredTests, TestFile } from "./test_files.ts";

/** Tests are measured for one mutant no longer than this; those that nothing is known of are left out after that. */
const MEASURE_MS_MAX = 30_000;

/** It plays every command, so it notices more than other tests of its cost: as much as that many. */
const TRANSCRIPTS = "tests/transcripts/conversation_test.ts";
const TRANSCRIPTS_WORTH = 20;

/** A test file that may reach a file of the source. */
interface Candidate {
  readonly path: string;
  /** Whether it imports the file; otherwise it starts a server that does. */
  readonly isOwn: boolean;
  /** Grows with the steps from import to import, shrinks with the folders in common. */
  readonly distance: number;
}

/**
 * Finds the tests that reach a line: by the graph of imports, and among those by the lines that each ran. A test file
 * is run once to learn this, when it is first asked for.
 */
export class Reach {
  readonly #copy: Pick<Copy, "measure">;
  readonly #measured: MeasuredTests;
  readonly #imports: ReadonlyMap<string, readonly string[]>;
  /** Those by which a test starts a server, left out. */
  readonly #ownImports: ReadonlyMap<string, readonly string[]>;
  readonly #report: (problem: string) => void;
  readonly #steps = new Map<string, Map<string, number>>();
  readonly #ownSteps = new Map<string, Map<string, number>>();
  readonly #measuring = new Map<string, Promise<TestFile | null>>();

  /**
   * @param copy The copy in which the tests are run without a mutant.
   * @param report Receives the tests that fail there.
   */
  constructor(
    copy: Pick<Copy, "measure">,
    sources: readonly Source[],
    measured: MeasuredTests,
    report: (problem: string) => void = () => {},
  ) {
    this.#copy = copy;
    this.#measured = measured;
    this.#report = report;
    this.#ownImports = new Map(sources.map(({ path, imports }) => [path, imports]));
    // A server in a process of its own is started by its address.
    const server = ["main.ts", "lib/server/worker.ts"];
    this.#imports = new Map(sources.map(({ path, imports }) => [
      path,
      path.startsWith("tests/support/servers/") ? [...imports, ...server] : imports,
    ]));
  }

  /**
   * Returns the tests that reach a line of a file: the cheapest and nearest of those that were measured, then the
   * nearest of the others. Of these, tests that start a server are left out if any other reaches the line.
   */
  async *testsFor(file: string, line: number): AsyncGenerator<TestFile> {
    const candidates = this.#candidates(file);
    // The test that has the file's name is the most likely to notice.
    const mirrored = candidates.find(({ path }) => path === mirrorOf(file));
    if (mirrored !== undefined) await this.#measure(mirrored.path);
    const known = candidates.flatMap(({ path, distance }) => {
      const test = this.#measured.get(path);
      if (test === undefined) return [];
      const worth = path === TRANSCRIPTS ? TRANSCRIPTS_WORTH : 1;
      return [{ test, cost: test.cpuSec * distance / worth }];
    }).sort((a, b) => a.cost - b.cost);
    let found = 0;
    for (const { test } of known) {
      if (!reaches(test, file, line)) continue;
      found++;
      yield test;
    }
    const unknown = candidates.filter(({ path }) => this.#measured.get(path) === undefined)
      .sort((a, b) => Number(b.isOwn) - Number(a.isOwn) || a.distance - b.distance);
    let measureMs = 0;
    for (const { path, isOwn } of unknown) {
      if (measureMs > MEASURE_MS_MAX || (!isOwn && found > 0)) return;
      const startMs = performance.now();
      const test = await this.#measure(path);
      measureMs += performance.now() - startMs;
      if (test === null || !reaches(test, file, line)) continue;
      found++;
      yield test;
    }
  }

  /** Measures all test files that reach the source: those that start no server first. */
  async measureAll(jobs: number): Promise<void> {
    const startsServer = (test: string): boolean =>
      stepsTo("main.ts", test, this.#imports, this.#steps) < Infinity;
    const tests = [...this.#imports.keys()].filter((path) => path.endsWith("_test.ts"));
    const queue = tests.sort((a, b) => Number(startsServer(a)) - Number(startsServer(b))).values();
    await Promise.all(Array.from({ length: jobs }, async () => {
      for (const test of queue) await this.#measure(test);
    }));
  }

  #candidates(file: string): Candidate[] {
    const mirror = mirrorOf(file);
    return [...this.#imports.keys()].filter((path) => path.endsWith("_test.ts")).map((path) => ({
      path,
      isOwn: stepsTo(file, path, this.#ownImports, this.#ownSteps) < Infinity,
      distance: stepsTo(file, path, this.#imports, this.#steps) / 2 ** sharedFolders(path, mirror),
    })).filter(({ distance }) => distance < Infinity);
  }

  async #measure(path: string): Promise<TestFile | null> {
    let measuring = this.#measuring.get(path);
    if (measuring === undefined) this.#measuring.set(path, measuring = this.#measureOnce(path));
    return await measuring;
  }

  async #measureOnce(path: string): Promise<TestFile | null> {
    const known = this.#measured.get(path);
    if (known !== undefined) return known;
    const test = await this.#copy.measure(path);
    if (test === null) this.#report(`${path} fails without a mutant: it judges none`);
    else this.#measured.add(test);
    return test;
  }
}

/** Returns where the test of a file of the source stands. */
function mirrorOf(file: string): string {
  return `tests/${file.replace(/\.ts$/, "_test.ts")}`;
}

/**
 * Whether a test runs a line. Coverage says of one that is run in part that it is not (`if (isOff) return null;`, when
 * it is never off), so the two lines before it count, too.
 */
function reaches({ lines }: TestFile, file: string, line: number): boolean {
  const run = lines.get(file);
  if (run === undefined) return false;
  return run === null || [line, line - 1, line - 2].some((each) => run.has(each));
}

/**
 * Returns the steps from a test to a file in a graph of imports; Infinity: there is no way.
 *
 * @param known The steps found so far, by the test.
 */
function stepsTo(
  file: string,
  test: string,
  imports: ReadonlyMap<string, readonly string[]>,
  known: Map<string, Map<string, number>>,
): number {
  let steps = known.get(test);
  if (steps === undefined) {
    steps = new Map([[test, 0]]);
    for (const [path, count] of steps) {
      for (const imported of imports.get(path) ?? []) {
        if (!steps.has(imported)) steps.set(imported, count + 1);
      }
    }
    known.set(test, steps);
  }
  return steps.get(file) ?? Infinity;
}

/** Returns how many folders two paths have in common, from the first on; a path itself counts, too. */
function sharedFolders(path: string, other: string): number {
  const others = other.split("/");
  const end = path.split("/").findIndex((part, index) => part !== others[index]);
  return end === -1 ? others.length : end;
}
