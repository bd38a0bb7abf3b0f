// Fuzzes for as long as asked: `deno task fuzz [seconds]`. Every failure names its seed, and ends
// the run with status 1.
import { checkContest } from "../support/models/contest_property.ts";
import { CONTESTS } from "../support/models/contests.ts";
import { startLeased } from "../support/servers/leased.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { IO_WAYS, type IoWay } from "../support/servers/server_process.ts";
import { fuzzConversations, fuzzSockets } from "./mutation_fuzz.ts";

type Fuzzer = (seed: number) => Promise<void> | void;

const SECONDS = 120;

async function fuzzServer({ io, ioUring }: IoWay, seed: number): Promise<void> {
  await using leased = await startLeased(io, [], undefined, ioUring);
  await fuzzSockets(leased, seed, 300);
}

const fuzzers: Record<string, Fuzzer> = {
  "mutated requests to conversations": (seed) => fuzzConversations(seed, 5000),
};
for (const way of IO_WAYS) {
  fuzzers[`mutated requests over sockets, ${way.name}`] = (seed) => fuzzServer(way, seed);
}
for (const [name, contest] of Object.entries(CONTESTS)) {
  fuzzers[`the model: ${name}`] = (seed) => checkContest(contest, seed, { runs: 1, steps: 10_000 });
}

const endMs = Date.now() + Number(Deno.args[0] ?? SECONDS) * 1000;
const runs = Object.fromEntries(Object.keys(fuzzers).map((name) => [name, 0]));
do {
  for (const [name, fuzzer] of Object.entries(fuzzers)) {
    await withSeed(drawSeed(), fuzzer);
    runs[name]! += 1;
  }
} while (Date.now() < endMs);
// deno-lint-ignore no-console
for (const [name, count] of Object.entries(runs)) console.log(`${count} runs of ${name}: ok`);
