import { path } from "../support/servers/server_process.ts";
import type { TestFile } from "./test_files.ts";

/** A test that waits is ended after this long. */
const TEST_LIMIT_MS = 30_000;
/** A run of a test file is ended after this long. */
const RUN_LIMIT_MS = 240_000;
/** One that is measured may take longer, but none of its processes may need more CPU time than this. */
const MEASURE_LIMIT_MS = 300_000;
const MEASURE_LIMIT_SEC = 30;

/** A process that needs that many times the CPU time of the whole test file does not end. */
const SLOWDOWN_MAX = 3;
/** Added to that, in seconds: what compiling takes at most. */
const SLOWDOWN_BASE_SEC = 5;
/** Runs a command with a limit of CPU time for each of its processes, and prints the sum of what they took. */
const LIMITED = 'ulimit -S -t "$0" && "$@"; status=$?; times >&2; exit $status';
/** The shell's status of a command that was ended by that limit. */
const OUT_OF_CPU_TIME = 128 + 24;

/** Without its lock file, Deno asks the registry which versions of a package there are. */
const LOCK = "--lock=tests/deno.lock";
const TEST_ARGUMENTS = [
  ..."test --no-check --cached-only --no-prompt --allow-all".split(" "),
  LOCK,
  "--preload=tests/support/time_limit.ts",
];
const FIRST_FAILURE = "--fail-fast";

/** The end of a run of test files. */
export type RunResult =
  | { readonly kind: "passed" }
  /** `test`: its name, null when it is not known. */
  | { readonly kind: "failed"; readonly test: string | null; readonly reason: string }
  | { readonly kind: "timed out" };

interface DenoOptions {
  readonly limitMs?: number;
  /** CPU time of each process. */
  readonly limitSec?: number;
  readonly env?: Readonly<Record<string, string>>;
}

interface DenoEnd {
  readonly code: number;
  readonly output: string;
  readonly timedOut: boolean;
  /** CPU time, with that of its processes. */
  readonly cpuSec: number;
}

const decoder = new TextDecoder();
/** Files that are mutated. */
export const SOURCE = /^(?:main\.ts|lib\/|protocol\/|store\/)/;

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

  /** Runs a test file until a test fails. @param filter Only tests whose names contain this; null: all. */
  async run(
    { path: file, cpuSec }: Pick<TestFile, "path" | "cpuSec">,
    filter: string | null = null,
    limitMs = RUN_LIMIT_MS,
  ): Promise<RunResult> {
    const names = filter === null ? [] : [`--filter=${filter}`];
    const limitSec = Math.ceil(SLOWDOWN_BASE_SEC + cpuSec * SLOWDOWN_MAX);
    const args = [...TEST_ARGUMENTS, FIRST_FAILURE, ...names, file];
    const { code, output, timedOut } = await this.#deno(args, { limitMs, limitSec });
    if (timedOut) return { kind: "timed out" };
    if (code === 0) return { kind: "passed" };
    if (code === OUT_OF_CPU_TIME) {
      return { kind: "failed", test: null, reason: `${file}: it does not end` };
    }
    const failures = output.slice(output.indexOf("\n FAILURES \n"));
    const named = /^(.+?) => \.\/tests\/\S+:\d+:\d+$/m.exec(failures)?.[1];
    if (named === undefined) {
      return { kind: "failed", test: null, reason: `${file}: the run ends early` };
    }
    const [test] = named.split(" ... ");
    return { kind: "failed", test: test!, reason: named };
  }

  /** Runs a program of the copy, with all permissions. A run that does not end within the time is ended. */
  async program(
    file: string,
    args: readonly string[],
    limitMs: number,
  ): Promise<Pick<DenoEnd, "code" | "output">> {
    const flags = ["--no-check", "--cached-only", "--no-prompt", "--allow-all"];
    return await this.#deno(["run", LOCK, ...flags, file, ...args], { limitMs });
  }

  /** Whether the types of a file are right, and those of all that it imports. */
  async compiles(file: string): Promise<boolean> {
    return (await this.#deno(["check", LOCK, "--cached-only", file])).code === 0;
  }

  /**
   * Runs a test file as it is, to learn how long it takes and which lines it runs.
   *
   * @returns Without lines when it takes too long or the time is up, and null when it fails.
   */
  async measure(file: string): Promise<TestFile | null> {
    const folder = await Deno.makeTempDir({ prefix: "leased-mutate-profile-" });
    // Deno removes the folder itself before it writes to it.
    const profile = `${folder}/lines`;
    const limit = { limitMs: MEASURE_LIMIT_MS, limitSec: MEASURE_LIMIT_SEC };
    const unknown = { path: file, cpuSec: 0, lines: new Map() };
    try {
      const raw = [`--coverage=${profile}`, "--coverage-raw-data-only"];
      const env = { DENO_COVERAGE_DIR: profile };
      const covered = await this.#deno([...TEST_ARGUMENTS, ...raw, file], { ...limit, env });
      if (covered.code === OUT_OF_CPU_TIME) return unknown;
      // Optimized code differs while lines are counted, so tests of allocation fail then.
      const plain = covered.code === 0
        ? covered
        : await this.#deno([...TEST_ARGUMENTS, file], limit);
      if (performance.now() >= this.#endMs) return unknown;
      if (plain.code !== 0) return null;
      return { path: file, cpuSec: plain.cpuSec, lines: await this.#lines(profile) };
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }

  /** Returns the lines of the source that a profile has seen run, by file. */
  async #lines(profile: string): Promise<Map<string, Set<number>>> {
    const { output } = await this.#deno(["coverage", "--lcov", profile]);
    const lines = new Map<string, Set<number>>();
    let current = new Set<number>();
    for (const row of output.split("\n")) {
      if (row.startsWith("SF:")) {
        const file = row.slice(row.indexOf(this.folder) + this.folder.length + 1);
        current = new Set();
        if (SOURCE.test(file)) lines.set(file, current);
      } else if (row.startsWith("DA:")) {
        const [line, count] = row.slice(3).split(",").map(Number);
        if (count! > 0) current.add(line!);
      }
    }
    return lines;
  }

  async #deno(args: readonly string[], options: DenoOptions = {}): Promise<DenoEnd> {
    const { limitMs = RUN_LIMIT_MS, limitSec = "unlimited", env = {} } = options;
    const child = new Deno.Command("sh", {
      args: ["-c", LIMITED, String(limitSec), Deno.execPath(), ...args],
      cwd: this.folder,
      env: { NO_COLOR: "1", LEASED_TESTS_LIMIT_MS: String(TEST_LIMIT_MS), ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached: true,
    }).spawn();
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      endGroup(child.pid);
    }, Math.max(0, Math.min(limitMs, this.#endMs - performance.now())));
    const { code, stdout, stderr } = await child.output();
    clearTimeout(timer);
    endGroup(child.pid);
    const messages = decoder.decode(stderr);
    return {
      code,
      output: decoder.decode(stdout) + messages,
      timedOut,
      cpuSec: cpuSecondsOf(messages),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Returns the CPU time that the shell's `times` says its commands took: the last line, user and system. */
function cpuSecondsOf(messages: string): number {
  const times = [...messages.matchAll(/(\d+)m([\d.]+)s/g)].slice(-2);
  return times.reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds),
    0,
  );
}

/** Ends what a test file has left running. */
function endGroup(leader: number): void {
  try {
    Deno.kill(-leader, "SIGKILL");
  } catch {
    // Nothing is left.
  }
}
