import { path } from "../support/servers/server_process.ts";
import type { TestFile } from "./reach.ts";

/** A test that waits is ended after this long. */
const TEST_LIMIT_MS = 60_000;
/** A run that measures a test file is ended after this long: the file is too slow for mutants. */
const RUN_LIMIT_MS = 60_000;

/** Without its lock file, Deno asks the registry which versions of a package there are. */
const LOCK = "--lock=tests/deno.lock";
const TEST_ARGUMENTS = [
  ..."test --no-check --cached-only --no-prompt --allow-all --fail-fast".split(" "),
  LOCK,
  "--preload=tests/support/time_limit.ts",
];

/** The program's modules: main.ts, and those that it loads as workers. */
const ENTRIES = [
  "main.ts",
  "lib/server/worker.ts",
  "lib/journal/journal_worker.ts",
  "lib/snapshot/read_worker.ts",
  "lib/rows/database_thread.ts",
];

/** The end of a run of test files. */
export type RunResult =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly test: string }
  | { readonly kind: "timed out" };

const decoder = new TextDecoder();

/** A copy of everything under version control, in a folder that goes away with it. */
export class Copy implements AsyncDisposable {
  readonly folder: string;
  readonly #endMs: number;

  private constructor(folder: string, endMs: number) {
    this.folder = folder;
    this.#endMs = endMs;
  }

  /** @param endMs When every run ends, on the clock of `performance.now`. */
  static async make(endMs = Infinity): Promise<Copy> {
    const copy = new Copy(await Deno.makeTempDir({ prefix: "leased-mutate-" }), endMs);
    const { stdout } = await new Deno.Command("git", {
      args: ["ls-files", "-z", "-co", "--exclude-standard"],
      cwd: path("."),
    }).output();
    for (const file of decoder.decode(stdout).split("\0").filter(Boolean)) {
      const target = `${copy.folder}/${file}`;
      await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
      await Deno.copyFile(path(file), target);
    }
    return copy;
  }

  /** Runs a test file until a test fails. @param filter Only tests whose names contain this. */
  async run(file: string, limitMs: number, filter?: string): Promise<RunResult> {
    const names = filter === undefined ? [] : [`--filter=${filter}`];
    const { success, output, timedOut } = await this.#deno(
      [...TEST_ARGUMENTS, ...names, file],
      limitMs,
    );
    if (timedOut) return { kind: "timed out" };
    if (success) return { kind: "passed" };
    const failures = output.slice(output.indexOf("\n FAILURES \n"));
    const named = /^(.+?) => \.\/tests\/\S+:\d+:\d+$/m.exec(failures)?.[1];
    const uncaught = /^(\.\/tests\/\S+) \(uncaught error\)$/m.exec(failures)?.[1];
    return { kind: "failed", test: named ?? `${uncaught ?? file}: the run ends early` };
  }

  /** Whether the types of the program are right. */
  async compiles(): Promise<boolean> {
    return (await this.#deno(["check", LOCK, "--cached-only", ...ENTRIES])).success;
  }

  /**
   * Runs a test file as it is, to learn how long it takes and which lines it runs.
   *
   * @returns Null when it fails, or takes too long.
   */
  async measure(file: string): Promise<TestFile | null> {
    const folder = await Deno.makeTempDir({ prefix: "leased-mutate-profile-" });
    // Deno removes the folder itself before it writes to it.
    const profile = `${folder}/lines`;
    try {
      // Optimized code differs while lines are counted, so tests of allocation fail then.
      const covered = await this.#deno([...TEST_ARGUMENTS, `--coverage=${profile}`, file]);
      const startMs = performance.now();
      const plain = covered.success ? covered : await this.#deno([...TEST_ARGUMENTS, file]);
      if (!plain.success) return null;
      const durationSec = covered.success ? covered.seconds : (performance.now() - startMs) / 1000;
      return {
        path: file,
        durationSec,
        lines: covered.success ? await this.#lines(profile) : null,
      };
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }

  /** Returns the lines that a profile has seen run, by file. */
  async #lines(profile: string): Promise<Map<string, Set<number>>> {
    const { output } = await this.#deno(["coverage", "--lcov", profile]);
    const lines = new Map<string, Set<number>>();
    let current = new Set<number>();
    for (const row of output.split("\n")) {
      if (row.startsWith("SF:")) {
        lines.set(
          row.slice(row.indexOf(this.folder) + this.folder.length + 1),
          current = new Set(),
        );
      } else if (row.startsWith("DA:")) {
        const [line, count] = row.slice(3).split(",").map(Number);
        if (count! > 0) current.add(line!);
      }
    }
    return lines;
  }

  async #deno(
    args: readonly string[],
    limitMs = RUN_LIMIT_MS,
  ): Promise<{ success: boolean; output: string; timedOut: boolean; seconds: number }> {
    const startMs = performance.now();
    const signal = AbortSignal.timeout(Math.max(0, Math.min(limitMs, this.#endMs - startMs)));
    const child = new Deno.Command(Deno.execPath(), {
      args: [...args],
      cwd: this.folder,
      env: { NO_COLOR: "1", LEASED_TESTS_LIMIT_MS: String(TEST_LIMIT_MS) },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached: true,
      signal,
    }).spawn();
    const { success, stdout, stderr } = await child.output();
    endGroup(child.pid);
    return {
      success,
      output: decoder.decode(stdout) + decoder.decode(stderr),
      timedOut: signal.aborted,
      seconds: (performance.now() - startMs) / 1000,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Ends what a test file that failed has left running. */
function endGroup(leader: number): void {
  try {
    Deno.kill(-leader, "SIGKILL");
  } catch {
    // Nothing is left.
  }
}
