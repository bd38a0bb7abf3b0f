import type { Source } from "../support/sources.ts";
import type { Copy } from "./copy.ts";

/** A test file and what it runs. */
export interface TestFile {
  readonly path: string;
  /** Seconds that it takes on its own. */
  readonly durationSec: number;
  /** Lines of the source that it ran in its own process, by file; null: not known, and any line may be reached. */
  readonly lines: ReadonlyMap<string, ReadonlySet<number>> | null;
}

/** Test files run for one place: the nearest ones by imports, of those that reach it. */
const FILES_MAX = 24;
/** The first files are run with the mutant at once: to learn what they reach takes longer. */
const NEAREST = 4;
/** It asks for every command in a few seconds, and stands in no room. */
const TRANSCRIPTS = "tests/transcripts/conversation_test.ts";
const PLAYED = /^(?:protocol|store)\//;
/** Time to learn for one place what more test files reach: files that nothing is known of are left out after that. */
const MEASURE_MS_MAX = 120_000;
/** What a test file of those is taken to need, in seconds. */
const NEAREST_SEC = 15;

/**
 * Finds the tests that reach a line: by the graph of imports first, and among those by the lines that
 * each ran. A test file is run once to learn this, when it is first asked for; the nearest ones are not.
 */
export class Reach {
  readonly #copy: Pick<Copy, "measure" | "run">;
  readonly #imports: ReadonlyMap<string, readonly string[]>;
  /** Those by which a test starts a server, left out. */
  readonly #ownImports: ReadonlyMap<string, readonly string[]>;
  readonly #report: (problem: string) => void;
  readonly #distances = new Map<string, Map<string, number>>();
  readonly #ownDistances = new Map<string, Map<string, number>>();
  readonly #files = new Map<string, Promise<TestFile | null>>();
  readonly #passes = new Map<string, Promise<boolean>>();

  /**
   * @param copy Where the tests are run without a mutant.
   * @param report Receives the tests that fail there.
   */
  constructor(
    copy: Pick<Copy, "measure" | "run">,
    sources: readonly Source[],
    report: (problem: string) => void = () => {},
  ) {
    this.#copy = copy;
    this.#report = report;
    this.#ownImports = new Map(sources.map(({ path, imports }) => [path, imports]));
    // A server in a process of its own is started by its address.
    const server = ["main.ts", "lib/server/worker.ts"];
    this.#imports = new Map(sources.map(({ path, imports }) => [
      path,
      path.startsWith("tests/support/servers/") ? [...imports, ...server] : imports,
    ]));
  }

  /** Returns the tests that reach a line of a file, the nearest ones first. */
  async *testsFor(file: string, line: number): AsyncGenerator<TestFile> {
    const mirrored = `tests/${file.replace(/\.ts$/, "_test.ts")}`;
    // Tests that start a server reach all its files: those that import the file come first, and among each the ones in
    // the file's own room.
    const candidates = [...this.#imports.keys()].filter((path) => path.endsWith("_test.ts"))
      .map((path) => ({
        path,
        distance: path === mirrored ? 0 : this.#distance(path, file),
        isOwn: distanceIn(this.#ownDistances, this.#ownImports, path, file) < Infinity,
        shared: path === TRANSCRIPTS && PLAYED.test(file)
          ? Infinity
          : sharedFolders(path, mirrored),
      }))
      .filter(({ distance }) => distance < Infinity)
      .sort((a, b) =>
        Number(b.isOwn || b.shared === Infinity) - Number(a.isOwn || a.shared === Infinity) ||
        b.shared - a.shared || a.distance - b.distance
      );
    let count = 0;
    let measureMs = 0;
    for (const [index, { path }] of candidates.entries()) {
      if (count === FILES_MAX) return;
      if (index < NEAREST && !this.#files.has(path)) {
        count++;
        yield { path, durationSec: NEAREST_SEC, lines: null };
        continue;
      }
      if (measureMs > MEASURE_MS_MAX && !this.#files.has(path)) continue;
      const startMs = performance.now();
      const test = await this.#measure(path);
      measureMs += performance.now() - startMs;
      if (test === null) continue;
      if (!test.lines?.get(file)?.has(line) && !this.#mayReachElsewhere(test, file)) continue;
      count++;
      yield test;
    }
  }

  /** Whether a test file passes without a mutant, in that time. */
  passes(path: string, limitMs: number): Promise<boolean> {
    let passes = this.#passes.get(path);
    if (passes === undefined) {
      passes = this.#copy.run(path, limitMs).then(({ kind }) => {
        if (kind !== "passed") this.#report(`${path} fails without a mutant, too: it judges none`);
        return kind === "passed";
      });
      this.#passes.set(path, passes);
    }
    return passes;
  }

  /** Whether the test may run the file where it does not see it: in another process or thread. */
  #mayReachElsewhere({ path, lines }: TestFile, file: string): boolean {
    return lines === null || this.#distance(path, "main.ts") < this.#distance(path, file) ||
      !lines.has(file);
  }

  #distance(test: string, file: string): number {
    return distanceIn(this.#distances, this.#imports, test, file);
  }

  #measure(path: string): Promise<TestFile | null> {
    let measured = this.#files.get(path);
    if (measured === undefined) this.#files.set(path, measured = this.#copy.measure(path));
    return measured;
  }
}

/**
 * Returns the steps from a test to a file in a graph of imports; Infinity: there is no way.
 *
 * @param known The distances found so far, by the test.
 */
function distanceIn(
  known: Map<string, Map<string, number>>,
  imports: ReadonlyMap<string, readonly string[]>,
  test: string,
  file: string,
): number {
  let distances = known.get(test);
  if (distances === undefined) {
    distances = new Map([[test, 0]]);
    for (const [path, distance] of distances) {
      for (const imported of imports.get(path) ?? []) {
        if (!distances.has(imported)) distances.set(imported, distance + 1);
      }
    }
    known.set(test, distances);
  }
  return distances.get(file) ?? Infinity;
}

/** Returns how many folders two paths have in common, from the first on; a path itself counts, too. */
function sharedFolders(path: string, other: string): number {
  const others = other.split("/");
  const end = path.split("/").findIndex((part, index) => part !== others[index]);
  return end === -1 ? others.length : end;
}
