// Runs seeds: started by run.ts, whose arguments it gets, with the modules of the runtime replaced.
import { parseArgs } from "@std/cli/parse-args";
import process from "node:process";
import { Copy } from "../mutate/copy.ts";
import { plant } from "../mutate/fault.ts";
import { drawSeed } from "../support/seed.ts";
import { outside, runPlan } from "./outside.ts";
import { planOf } from "./draw.ts";
import { missing, unlisted } from "./coverage.ts";
import type { Plan } from "./plan.ts";
import { PLANTED } from "./planted.ts";
import { MAPPED_VARIABLE } from "./runtime/mapped.ts";
import { shorten } from "./shrink.ts";
import type { Ran } from "./simulation.ts";

const SEEDS = 100;
const REQUESTS = 2000;
/** Runs that the search for a shorter plan may take. */
const SHORTENING_RUNS = 400;
/** Seeds within which a planted fault must be found. */
const PLANTED_SEEDS = 500;

const options = parseArgs(Deno.args, {
  string: ["seed", "from", "requests", "hours", "plan", "history", "seeds"],
  boolean: ["first", "planted", "missing"],
});
const size = {
  requests: Number(options.requests ?? REQUESTS),
  hasLibrary: Deno.env.has(MAPPED_VARIABLE),
  hours: options.hours === undefined ? null : Number(options.hours),
};
const planFile = textOf(options.plan);
const historyFile = textOf(options.history);

function textOf(option: unknown): string | null {
  return typeof option === "string" ? option : null;
}

// deno-lint-ignore no-console
const print = (text: string): void => console.log(text);

function cpuSec(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Prints the transcript of a plan, and what is wrong with its history. */
async function show(plan: Plan): Promise<Ran> {
  const ran = await runPlan(plan, true);
  print(ran.transcript.join("\n"));
  print(`\n${plan.features}\nhash ${ran.hash >>> 0}`);
  for (const violation of ran.violations) print(`VIOLATION ${violation}`);
  if (historyFile !== null) Deno.writeTextFileSync(historyFile, ran.history.text);
  return ran;
}

/** Runs seeds one after the other. @returns How many had violations. */
async function runSeeds(from: number, count: number): Promise<number> {
  const beginSec = cpuSec();
  let operations = 0;
  let events = 0;
  let virtualMs = 0;
  const failed: number[] = [];
  const met = new Set<string>();
  for (let seed = from; seed < from + count; seed++) {
    const plan = planOf(seed, size);
    const ran = await runPlan(plan);
    operations += ran.answered;
    events += ran.events;
    virtualMs += ran.virtualMs;
    for (const name of ran.met) met.add(name);
    if (ran.violations.length === 0) continue;
    failed.push(seed);
    print(`seed ${seed}: ${plan.features}`);
    for (const violation of ran.violations.slice(0, 5)) print(`  ${violation}`);
    if (options.first) break;
  }
  const seconds = cpuSec() - beginSec;
  const perSec = (value: number): string => Math.round(value / seconds).toLocaleString("en");
  print(
    `seeds ${from} to ${from + count - 1}: ${failed.length} failed; ${operations} operations, ` +
      `${perSec(operations)} operations/s, ${perSec(events)} events/s, ` +
      `${perSec(virtualMs / 1000)} virtual s/s`,
  );
  if (options.missing) {
    print(["no seed has met:", ...missing(met)].join("\n  "));
    if (unlisted(met).length > 0) print(["in no list:", ...unlisted(met)].join("\n  "));
  }
  const [first] = failed;
  if (first !== undefined && !options.first) await showShortest(planOf(first, size));
  return failed.length;
}

/** Prints the shortest history found, and how to have it again. */
async function showShortest(plan: Plan): Promise<void> {
  const shortest = await outside(() => shorten(plan, SHORTENING_RUNS));
  await show(shortest);
  const file = `simulate_${plan.seed}.json`;
  Deno.writeTextFileSync(file, JSON.stringify(shortest));
  print(`deno task simulate --plan ${file} runs it again`);
}

/** Plants faults, one at a time, in a copy of the source, and runs seeds until one fails. @returns How many survive. */
async function runPlanted(words: string): Promise<number> {
  await using copy = await Copy.make();
  let survivors = 0;
  for (const fault of PLANTED) {
    const name = `${fault.file}: ${fault.fault}`;
    if (!name.includes(words)) continue;
    const target = `${copy.folder}/${fault.file}`;
    const text = Deno.readTextFileSync(target);
    Deno.writeTextFileSync(target, plant(fault, text));
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-check", "--allow-all", "--lock=tests/deno.lock", "tests/simulator/run.ts"],
        ...[textOf(options.seeds) ?? `${PLANTED_SEEDS}`, "--from", "1", "--first"],
      ],
      cwd: copy.folder,
      stderr: "inherit",
    }).output();
    Deno.writeTextFileSync(target, text);
    const [, seed, what] = /^seed (\d+):.*\n +(.*)/m.exec(new TextDecoder().decode(stdout)) ?? [];
    if (seed === undefined) survivors++;
    print(
      seed === undefined
        ? `SURVIVES ${name}`
        : `seed ${seed.padStart(3)}  ${name}\n          ${what}`,
    );
  }
  return survivors;
}

async function main(): Promise<number> {
  const [count = SEEDS] = options._;
  if (options.planted) return await runPlanted(options._.join(" "));
  if (planFile !== null) {
    return (await show(JSON.parse(Deno.readTextFileSync(planFile)))).violations.length;
  }
  if (options.seed !== undefined) {
    return (await show(planOf(Number(options.seed), size))).violations.length;
  }
  return await runSeeds(Number(options.from ?? drawSeed()), Number(count));
}

if (await main() > 0) Deno.exit(1);
