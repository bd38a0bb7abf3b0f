// `deno task mutate [PATH…] [--sample N] [--seed N] [--minutes N] [--jobs N] [--results FILE] [--measured FILE]
// [--measure]`: changes the source at random places, one at a time, in copies, and runs the tests that reach each place
// until one fails. PATHs select files of the source. Prints the survivors as diffs, and a last line with the share that
// was caught. `--results` keeps the verdicts: a run with a FILE that exists goes on where that one ended, also after
// changes. `--measured` keeps which lines each test file runs, so that later runs need not learn it again; `--measure`
// learns it of all test files first.
// `--planted [TEXT…]`: plants the faults of planted.ts instead, with status 1 when one is not caught. Each TEXT selects
// those whose file or description contains it.

import { randomFrom } from "../support/random.ts";
import { readLine } from "../support/options.ts";
import { drawSeed, hash32 } from "../support/seed.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import { readSources } from "../support/sources.ts";
import { Copy, type RunResult, SOURCE } from "./copy.ts";
import { type Fault, plant } from "./fault.ts";
import { applied, diffOf, type Mutant, mutantsOf } from "./operators.ts";
import { FAULTS } from "./planted.ts";
import { Reach } from "./reach.ts";
import { nameOf, Results, type Verdict } from "./results.ts";
import { MeasuredTests, type TestFile } from "./test_files.ts";

/** The tests of a planted fault may take this long. */
const PLANTED_LIMIT_MS = 300_000;
const PLANTED_CPU_SEC = 100;
/** No more tests of a mutant begin after this: one that outlasts them survives. */
const TESTS_MS_MAX = 60_000;

/** Returns the mutants in a random order, which changes of other files leave as it is. */
function shuffled(mutants: readonly Mutant[], seed: number): Mutant[] {
  return mutants.map((mutant) => ({
    mutant,
    rank: randomFrom(hash32(`${seed} ${nameOf(mutant)}`))(),
  }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ mutant }) => mutant);
}

/** The parts that find out whether a mutant is caught. */
interface Judge {
  /** Gets the mutant. */
  readonly copy: Copy;
  /** Has none. */
  readonly plain: Copy;
  readonly reach: Reach;
  readonly results: Results;
}

/** Runs the tests that reach a mutant until one fails. */
async function verdictOf(
  mutant: Mutant,
  text: string,
  { copy, plain, reach, results }: Judge,
): Promise<Verdict> {
  const target = `${copy.folder}/${mutant.file}`;
  const passed = [...results.passed(mutant)];
  const endMs = performance.now() + TESTS_MS_MAX;
  await Deno.writeTextFile(target, applied(mutant, text));
  try {
    if (mutant.operator === "arguments swapped" && !await copy.compiles(mutant.file)) {
      return { kind: "does not compile" };
    }
    for await (const test of reach.testsFor(mutant.file, mutant.line)) {
      if (performance.now() > endMs) break;
      if (passed.includes(test.path)) continue;
      const result = await copy.run(test);
      if (result.kind === "passed") {
        passed.push(test.path);
      } else if (await isCaught(result, test, copy, plain)) {
        const by = result.kind === "failed" ? result.reason : `${test.path}: it does not end`;
        return { kind: "caught", by };
      }
    }
    return passed.length === 0 ? { kind: "untested" } : { kind: "survives", tests: passed };
  } finally {
    await Deno.writeTextFile(target, text);
  }
}

/** Whether a test that failed with a mutant passes without it, and fails again with it. */
async function isCaught(
  result: RunResult,
  test: TestFile,
  copy: Copy,
  plain: Copy,
): Promise<boolean> {
  const name = result.kind === "failed" ? result.test : null;
  return (await plain.run(test, name)).kind === "passed" &&
    (await copy.run(test, name)).kind !== "passed";
}

/** Returns the test that fails with a planted fault and passes without it, or null. */
async function catcherOf(fault: Fault, copy: Copy): Promise<string | null> {
  const target = `${copy.folder}/${fault.file}`;
  const text = await Deno.readTextFile(target);
  for (const name of fault.tests.split(" ")) {
    const test = { path: `tests/${name}_test.ts`, cpuSec: PLANTED_CPU_SEC };
    await Deno.writeTextFile(target, plant(fault, text));
    const planted = await copy.run(test, fault.filter ?? null, PLANTED_LIMIT_MS);
    await Deno.writeTextFile(target, text);
    if (planted.kind === "passed") continue;
    const by = planted.kind === "failed" ? planted.reason : `the time limit of ${test.path}`;
    if ((await copy.run(test, fault.filter ?? null, PLANTED_LIMIT_MS)).kind === "passed") return by;
  }
  return null;
}

/** Plants the selected faults. Returns how many are not caught. */
async function tryPlanted(words: readonly string[], jobs: number): Promise<number> {
  const queue = FAULTS.filter(({ file, fault }) =>
    words.every((word) => `${file} ${fault}`.includes(word))
  ).values();
  let survivors = 0;
  await Promise.all(Array.from({ length: jobs }, async () => {
    await using copy = await Copy.make();
    for (const fault of queue) {
      const test = await catcherOf(fault, copy);
      if (test === null) survivors++;
      const verdict = test === null ? "SURVIVES" : "caught  ";
      print(`${verdict} ${fault.file}: ${fault.fault}${test === null ? "" : `: ${test}`}`);
    }
  }));
  print(`\n${survivors} planted faults survive`);
  return survivors;
}

function print(text: string): void {
  // deno-lint-ignore no-console
  console.log(text);
}

/** Prints a verdict, with the change unless it was caught. */
function report(mutant: Mutant, verdict: Verdict, text: string): void {
  const place = `${mutant.file}:${mutant.line} ${mutant.operator}`;
  if (verdict.kind === "caught") {
    print(`caught   ${place}: ${verdict.by}`);
  } else if (verdict.kind === "survives") {
    print(`SURVIVES ${place}: passed ${verdict.tests.join(" ")}\n${diffOf(mutant, text)}`);
  } else if (verdict.kind === "untested") {
    print(`UNTESTED ${place}: no test was run\n${diffOf(mutant, text)}`);
  }
}

async function main(): Promise<number> {
  const defaults = {
    sample: 50,
    seed: "",
    minutes: 600,
    jobs: 2,
    results: "",
    measured: "",
    measure: false,
    planted: false,
  };
  const { options, words: paths } = readLine(Deno.args, defaults, "path");
  const { jobs } = options;
  if (options.planted) return await tryPlanted(paths, jobs) === 0 ? 0 : 1;
  const sources = readSources();
  const selected = sources.filter(({ path }) =>
    SOURCE.test(path) && (paths.length === 0 || paths.some((part) => path.startsWith(part)))
  );
  const texts = new Map(selected.map(({ path, text }) => [path, text]));
  const mutants = selected.flatMap(({ path, text }) => mutantsOf(path, text));
  const seed = options.seed === "" ? undefined : Number(options.seed);
  const transcripts = JSON.stringify(readTranscripts());
  const tests = new Map(
    sources.filter(({ path }) => path.endsWith("_test.ts")).map(({ path, text }) => [
      path,
      hash32(path.startsWith("tests/transcripts/") ? text + transcripts : text),
    ]),
  );
  const results = new Results(options.results || undefined, { texts, tests }, seed, drawSeed);
  const wanted = Math.min(options.sample, mutants.length);
  const endMs = performance.now() + options.minutes * 60_000;
  await using plain = await Copy.make(endMs);
  const measured = new MeasuredTests(options.measured || undefined, sources);
  const reach = new Reach(plain, sources, measured, print);
  if (options.measure) await reach.measureAll(jobs);
  print(
    `${wanted} of ${mutants.length} mutants of ${selected.length} files, --seed ${results.seed}`,
  );
  const queue = shuffled(mutants, results.seed).values();
  const counts = { caught: 0, survives: 0, untested: 0, "does not compile": 0 };
  let tried = 0;
  await Promise.all(Array.from({ length: jobs }, async () => {
    await using copy = await Copy.make(endMs);
    // One that does not compile is no mutant: another one is drawn.
    while (tried < wanted) {
      const { value: mutant } = queue.next();
      if (mutant === undefined) return;
      tried++;
      const text = texts.get(mutant.file)!;
      let verdict = results.get(mutant);
      if (verdict === undefined) {
        verdict = await verdictOf(mutant, text, { copy, plain, reach, results });
        // The last one has no verdict: its tests were ended.
        if (performance.now() > endMs) return;
        results.add(mutant, verdict);
      }
      counts[verdict.kind]++;
      if (verdict.kind === "does not compile") tried--;
      report(mutant, verdict, text);
    }
  }));
  const { caught, survives, untested } = counts;
  const judged = caught + survives + untested;
  const share = judged === 0 ? 0 : Math.round(1000 * caught / judged) / 10;
  print(
    `\n${judged} mutants, ${caught} caught (${share} %), ${survives} survive, ` +
      `${untested} reached by no test that was run`,
  );
  return 0;
}

Deno.exit(await main());
