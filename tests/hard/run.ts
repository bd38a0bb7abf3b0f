import { readLine } from "../support/options.ts";
import { FRESH_MEMORY } from "../support/tasks/allocation.ts";
import { readSources } from "../support/sources.ts";
import type { Transcript, TranscriptCase } from "../support/sessions/transcript.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";
import { INTERRUPTIONS, RESTARTS } from "../transcripts/disturbances/disturbances.ts";
import { DisturbedPlayer } from "../transcripts/disturbances/disturbed.ts";
import {
  ENTRIES,
  entriesOf,
  type Entry,
  entryFor,
} from "../transcripts/disturbances/exceptions.ts";
import type { Disturbance } from "../transcripts/disturbances/world.ts";

// Each transcript with each disturbance at each single place: a fault that one disturbance causes, and the next one
// repairs, shows only here. Then, or with the word `effort`, the tests that repeat what is random or a race, each
// EFFORT times as often as in `deno task test`.

const EFFORT = 10;
/** Of one test. */
const LIMIT_MS = 1_800_000;
const { words } = readLine(Deno.args, {}, "effort|disturbance|file");
const transcripts = readTranscripts();
const disturbances = [
  ...INTERRUPTIONS.filter(({ name }) => !name.endsWith("options")),
  ...RESTARTS,
];
const isEffortAlone = words.length > 0 && words.every((word) => word === "effort");
/** Lines of the table that a case has needed. */
const needed = new Set<Entry>();

// deno-lint-ignore no-console
const report = console.log;

/** Returns whether a name has one of the words that choose among `names`; without such a word all are chosen. */
function isChosen(name: string, names: readonly string[]): boolean {
  const chosen = words.filter((word) => names.some((one) => one.includes(word)));
  return chosen.length === 0 || chosen.some((word) => name.includes(word));
}

/** Plays a case with the disturbance at one place after the other. @returns The first failure, or null. */
async function failureOf(
  player: DisturbedPlayer,
  transcriptCase: TranscriptCase,
): Promise<string | null> {
  for (let place = 0, places = 1; place < places; place++) {
    const played = await player.play(transcriptCase, place);
    if (played.error !== null) return `at place ${place}: ${played.error.message}`;
    places = played.places;
  }
  return null;
}

/** Runs the test files that repeat something as often as they are told. @returns Whether all passed. */
async function repeat(): Promise<boolean> {
  const files = readSources()
    .filter(({ path, text }) =>
      path.endsWith("_test.ts") && /\b(?:roundsOf|testCuts|testOver\w+)\(/.test(text)
    )
    .map(({ path }) => path);
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", "--lock=tests/deno.lock", "--no-prompt", "--allow-all", "--parallel"],
      ...["--preload=tests/support/time_limit.ts", ...files],
    ],
    env: {
      ...FRESH_MEMORY,
      LEASED_TESTS_EFFORT: `${EFFORT}`,
      LEASED_TESTS_LIMIT_MS: `${LIMIT_MS}`,
    },
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  return success;
}

/** @returns The number of cases that failed. */
async function playAlone(transcript: Transcript, disturbance: Disturbance): Promise<number> {
  const entries = entriesOf(disturbance, transcript.name);
  const player = new DisturbedPlayer(transcript, disturbance);
  let failures = 0;
  for (const transcriptCase of transcript.cases) {
    const entry = entryFor(transcriptCase, entries);
    if (entry !== undefined) {
      const { error } = await player.play(transcriptCase, "everywhere");
      if (error !== null || await failureOf(player, transcriptCase) !== null) needed.add(entry);
      continue;
    }
    const failure = await failureOf(player, transcriptCase);
    if (failure === null) continue;
    failures++;
    report(`${transcript.name}: ${transcriptCase.name}, ${disturbance.name} ${failure}`);
  }
  return failures;
}

const files = transcripts.map(({ name }) => name);
const names = disturbances.map(({ name }) => name);
let failures = 0;
for (const disturbance of isEffortAlone ? [] : disturbances) {
  if (!isChosen(disturbance.name, names)) continue;
  const before = failures;
  for (const transcript of transcripts) {
    if (isChosen(transcript.name, files)) failures += await playAlone(transcript, disturbance);
  }
  report(`${disturbance.name}: ${failures - before} cases failed`);
}
if (words.length === 0) {
  for (const entry of ENTRIES) {
    if (needed.has(entry) || !names.some((name) => name.startsWith(entry.by))) continue;
    failures++;
    report(`${entry.file}: "${entry.start}" needs no exception for "${entry.by}"`);
  }
}
if ((words.length === 0 || isEffortAlone) && !await repeat()) failures++;
Deno.exit(failures === 0 ? 0 : 1);
