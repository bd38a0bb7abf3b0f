// `deno task mutate [PATH…] [--sample N] [--seed N] [--minutes N] [--jobs N] [--results FILE]`: changes the source at
// random places, one at a time, in copies, and runs the tests that reach each place until one fails. PATHs select files
// of the source. Prints the survivors as diffs, and a last line with the share that was caught. FILE gets the verdicts;
// a run with a FILE that exists goes on where that one ended, also after changes.
// `--planted [TEXT…]`: plants the faults of planted.ts instead, with status 1 when one is not caught. Each TEXT selects
// those whose file or description contains it.

import { parseArgs } from "@std/cli/parse-args";
import { randomFrom } from "../support/random.ts";
import { drawSeed, hash32 } from "../support/seed.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import { readSources } from "../support/sources.ts";
import { Copy } from "./copy.ts";
import { type Fault, plant } from "./fault.ts";
import { applied, BREAKING, diffOf, type Mutant, mutantsOf } from "./operators.ts";
import { FAULTS } from "./planted.ts";
import { Reach } from "./reach.ts";
import { Results, type Verdict } from "./results.ts";

/** A mutant that makes tests this many times slower counts as caught. */
const SLOWDOWN_MAX = 5;
/** Added to that, in milliseconds: what a start takes on a busy machine. */
const SLOWDOWN_BASE_MS = 30_000;
/** The tests of a planted fault may take this long. */
const PLANTED_LIMIT_MS = 300_000;
/** Tests of one mutant: one that outlasts them survives. */
const TESTS_MS_MAX = 180_000;

/** Returns the mutants in a random order. */
function shuffled(mutants: readonly Mutant[], seed: number): Mutant[] {
  const random = randomFrom(seed);
  const drawn = [...mutants];
  for (let index = drawn.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [drawn[index], drawn[other]] = [drawn[other]!, drawn[index]!];
  }
  return drawn;
}

/** Runs the tests that reach a mutant until one fails. */
async function verdictOf(mutant: Mutant, text: string, copy: Copy, reach: Reach): Promise<Verdict> {
  const target = `${copy.folder}/${mutant.file}`;
  const passed: string[] = [];
  let testsMs = 0;
  await Deno.writeTextFile(target, applied(mutant, text));
  try {
    if (BREAKING.has(mutant.operator) && !await copy.compiles()) {
      return { kind: "does not compile" };
    }
    for await (const { path, durationSec } of reach.testsFor(mutant.file, mutant.line)) {
      if (testsMs > TESTS_MS_MAX) break;
      const limitMs = SLOWDOWN_BASE_MS + durationSec * 1000 * SLOWDOWN_MAX;
      const startMs = performance.now();
      const result = await copy.run(path, limitMs);
      testsMs += performance.now() - startMs;
      if (result.kind === "passed") {
        passed.push(path);
      } else if (await reach.passes(path, limitMs)) {
        const by = result.kind === "failed" ? result.test : `the time limit of ${path}`;
        return { kind: "caught", by };
      }
    }
    return passed.length === 0 ? { kind: "untested" } : { kind: "survives", tests: passed };
  } finally {
    await Deno.writeTextFile(target, text);
  }
}

/** Returns the test that fails with a planted fault and passes without it, or null. */
async function catcherOf(fault: Fault, copy: Copy): Promise<string | null> {
  const target = `${copy.folder}/${fault.file}`;
  const text = await Deno.readTextFile(target);
  for (const name of fault.tests.split(" ")) {
    const file = `tests/${name}_test.ts`;
    await Deno.writeTextFile(target, plant(fault, text));
    const planted = await copy.run(file, PLANTED_LIMIT_MS, fault.filter);
    await Deno.writeTextFile(target, text);
    if (planted.kind === "passed") continue;
    const test = planted.kind === "failed" ? planted.test : `the time limit of ${file}`;
    if ((await copy.run(file, PLANTED_LIMIT_MS, fault.filter)).kind === "passed") return test;
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
  const options = parseArgs(Deno.args, {
    boolean: ["planted"],
    string: ["sample", "seed", "minutes", "jobs", "results"],
  });
  const paths = options._;
  const jobs = Number(options.jobs ?? 2);
  if (options.planted) return await tryPlanted(paths.map(String), jobs) === 0 ? 0 : 1;
  const sources = readSources();
  const selected = sources.filter(({ path }) =>
    /^(?:main\.ts|lib\/|protocol\/|store\/)/.test(path) &&
    (paths.length === 0 || paths.some((part) => path.startsWith(String(part))))
  );
  const texts = new Map(selected.map(({ path, text }) => [path, text]));
  const mutants = selected.flatMap(({ path, text }) => mutantsOf(path, text));
  const seed = options.seed === undefined ? undefined : Number(options.seed);
  const file = options.results as string | undefined;
  const tests = hash32(
    JSON.stringify([
      sources.filter(({ path }) => path.startsWith("tests/")).map(({ text }) => text),
      readTranscripts(),
    ]),
  );
  const results = new Results(file, { texts, tests }, seed, drawSeed);
  const wanted = Math.min(Number(options.sample ?? 50), mutants.length);
  print(
    `${wanted} of ${mutants.length} mutants of ${selected.length} files, --seed ${results.seed}`,
  );
  const endMs = performance.now() + Number(options.minutes ?? 600) * 60_000;
  await using plain = await Copy.make(endMs);
  const reach = new Reach(plain, sources, print);
  const queue = shuffled(mutants, results.seed).values();
  let inProgress = 0;
  await Promise.all(Array.from({ length: jobs }, async () => {
    await using copy = await Copy.make(endMs);
    while (results.tried + inProgress < wanted) {
      const { value: mutant } = queue.next();
      if (mutant === undefined) return;
      if (results.has(mutant)) continue;
      const text = texts.get(mutant.file)!;
      inProgress++;
      const verdict = await verdictOf(mutant, text, copy, reach);
      inProgress--;
      // The last one has no verdict: its tests were ended.
      if (performance.now() > endMs) return;
      results.add(mutant, verdict);
      report(mutant, verdict, text);
    }
  }));
  const caught = results.count("caught");
  const share = results.tried === 0 ? 0 : Math.round(100 * caught / results.tried);
  print(
    `\n${results.tried} mutants, ${caught} caught (${share} %), ${
      results.count("survives")
    } survive, ` +
      `${results.count("untested")} reached by no test that was run`,
  );
  return 0;
}

Deno.exit(await main());
