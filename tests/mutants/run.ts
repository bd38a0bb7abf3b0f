// `deno task mutants [TEXT…]`: plants known faults in copies of the source, one at a time, and runs the tests
// that should notice. Status 1 when a fault is noticed by none of them, or cannot be planted. Each TEXT selects the
// faults whose file or description contains it.

import { path } from "../support/servers/server_process.ts";
import { type Fault, plant } from "./fault.ts";
import { FAULTS } from "./faults.ts";

/** Faults tried at the same time. */
const JOBS = 3;
/** A test that a fault makes wait is ended after this long. */
const TEST_LIMIT_MS = 90_000;
/** So are all tests of a fault together. */
const RUN_LIMIT_MS = 300_000;

const TEST_ARGUMENTS = [
  ..."test --no-check --no-lock --cached-only --no-prompt --allow-all --fail-fast".split(" "),
  "--preload=tests/support/time_limit.ts",
];

/** A test that failed. */
interface Failure {
  readonly test: string;
  /** Selects it for another run. */
  readonly filter: string | undefined;
}

interface Result {
  readonly fault: Fault;
  /** The test that failed; undefined: none. */
  readonly caughtBy: string | undefined;
  /** Why nothing can be said. */
  readonly problem?: string;
}

const decoder = new TextDecoder();

/** A copy of everything under version control, in a folder that goes away with it. */
class Copy implements AsyncDisposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Copy> {
    const copy = new Copy(await Deno.makeTempDir({ prefix: "leased-mutants-" }));
    const { stdout } = await command(
      "git",
      ["ls-files", "-z", "-co", "--exclude-standard"],
      path("."),
    );
    for (const file of decoder.decode(stdout).split("\0").filter(Boolean)) {
      const target = `${copy.folder}/${file}`;
      await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
      await Deno.copyFile(path(file), target);
    }
    return copy;
  }

  /** Runs test files. Returns the first test that failed, or undefined. @throws Error when they cannot be run. */
  async firstFailure(files: readonly string[], filter?: string): Promise<Failure | undefined> {
    const { success, stdout, stderr } = await command(
      Deno.execPath(),
      [...TEST_ARGUMENTS, ...(filter === undefined ? [] : [`--filter=${filter}`]), ...files],
      this.folder,
    );
    if (success) return undefined;
    const output = decoder.decode(stdout) + decoder.decode(stderr);
    const failures = output.slice(output.indexOf("\n FAILURES \n"));
    // The place is the file of the test, or of the function that registers tests for it.
    const named = /^(.+?) => \.\/tests\/\S+:\d+:\d+$/m.exec(failures);
    if (named !== null) return { test: named[1]!, filter: named[1] };
    const uncaught = /^(\.\/tests\/\S+) \(uncaught error\)$/m.exec(failures);
    if (uncaught !== null) return { test: `${uncaught[1]} ends with an uncaught error`, filter };
    throw new Error(`no test failed, but the run did:\n${output.slice(-3000)}`);
  }

  /** Finds the test that fails with a fault, and makes sure that it passes without. */
  async try(fault: Fault): Promise<Result> {
    const target = `${this.folder}/${fault.file}`;
    const text = await Deno.readTextFile(target);
    const files = fault.tests.split(" ").map((name) => `tests/${name}_test.ts`);
    await Deno.writeTextFile(target, plant(fault, text));
    let failure;
    try {
      failure = await this.firstFailure(files, fault.filter);
    } finally {
      await Deno.writeTextFile(target, text);
    }
    if (failure === undefined) return { fault, caughtBy: undefined };
    const withoutFault = await this.firstFailure(files, failure.filter);
    return withoutFault === undefined
      ? { fault, caughtBy: failure.test }
      : { fault, caughtBy: undefined, problem: `${withoutFault.test} fails without it too` };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

function command(
  program: string,
  args: readonly string[],
  cwd: string,
): Promise<Deno.CommandOutput> {
  return new Deno.Command(program, {
    args: [...args],
    cwd,
    env: { NO_COLOR: "1", LEASED_TESTS_LIMIT_MS: String(TEST_LIMIT_MS) },
    stdin: "null",
    signal: AbortSignal.timeout(RUN_LIMIT_MS),
  }).output();
}

/** Finds out about every fault, some at a time. */
async function tryAll(faults: readonly Fault[], note: (result: Result) => void): Promise<Result[]> {
  const results: Result[] = new Array(faults.length);
  const queue = faults.entries();
  await Promise.all(Array.from({ length: JOBS }, async () => {
    await using copy = await Copy.make();
    for (const [index, fault] of queue) {
      const result = await copy.try(fault).catch((error: Error) => ({
        fault,
        caughtBy: undefined,
        problem: error.message,
      }));
      results[index] = result;
      note(result);
    }
  }));
  return results;
}

/** The results as a table in Markdown. */
function table(results: readonly Result[]): string {
  const cell = (text: string): string => text.replaceAll("|", "\\|");
  const rows = results.map(({ fault: { file, fault }, caughtBy }) =>
    `| \`${file}\` | ${cell(fault)} | ${cell(caughtBy ?? "**no test**")} |`
  );
  return ["| file | fault | caught by |", "| --- | --- | --- |", ...rows].join("\n");
}

/** Says which faults cannot be planted. */
async function unplantable(faults: readonly Fault[]): Promise<string[]> {
  const errors = await Promise.all(faults.map(async (fault) => {
    try {
      plant(fault, await Deno.readTextFile(path(fault.file)));
      return [];
    } catch (error) {
      return [`${fault.fault}: ${error instanceof Error ? error.message : error}`];
    }
  }));
  return errors.flat();
}

function print(text: string): void {
  // deno-lint-ignore no-console
  console.log(text);
}

async function main(texts: readonly string[]): Promise<number> {
  const faults = FAULTS.filter(({ file, fault }) =>
    texts.every((text) => `${file} ${fault}`.includes(text))
  );
  if (faults.length === 0) {
    print(`no fault has ${texts.join(" and ")} in its file or description`);
    return 1;
  }
  const errors = await unplantable(faults);
  if (errors.length > 0) {
    print(`${errors.length} faults cannot be planted:\n${errors.join("\n")}`);
    return 1;
  }
  const results = await tryAll(faults, ({ fault: { file, fault }, caughtBy, problem }) => {
    const word = problem !== undefined
      ? "PROBLEM "
      : caughtBy === undefined
      ? "SURVIVES"
      : "caught  ";
    print(`${word} ${file}: ${fault}${problem === undefined ? "" : `; ${problem}`}`);
  });
  const survivors = results.filter(({ caughtBy }) => caughtBy === undefined);
  print(`\n${table(results)}\n\n${results.length} faults, ${survivors.length} survive`);
  return survivors.length === 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
