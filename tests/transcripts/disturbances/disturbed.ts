import { assert, assertEquals } from "@std/assert";
import { play } from "../../support/sessions/play.ts";
import type { Transcript, TranscriptCase } from "../../support/sessions/transcript.ts";
import { readTranscripts } from "../../support/sessions/transcript_files.ts";
import { entriesOf, entryFor } from "./exceptions.ts";
import { type Disturbance, type Where, World } from "./world.ts";

/** The result of a case with a disturbance. */
export interface Played {
  readonly transcriptCase: TranscriptCase;
  /** Null: every reply was as written. */
  readonly error: Error | null;
  /** How often the disturbance happened. */
  readonly applied: number;
  /** Places where it could have happened. */
  readonly places: number;
}

/** Plays cases with a disturbance, one after the other in one server, until one fails. */
export class DisturbedPlayer {
  readonly #options: readonly string[];
  readonly #disturbance: Disturbance;
  #world: World | null = null;

  /** @param options Of the transcript. */
  constructor({ options }: Transcript, disturbance: Disturbance) {
    this.#options = options;
    this.#disturbance = disturbance;
  }

  async play(transcriptCase: TranscriptCase, where: Where): Promise<Played> {
    const world = this.#world ??= new World(this.#options, this.#disturbance);
    world.begin(where);
    let error: Error | null = null;
    try {
      await play(world, transcriptCase);
      world.end();
    } catch (failure) {
      error = failure as Error;
      this.#world = null;
    }
    return { transcriptCase, error, applied: world.applied, places: world.places };
  }
}

/** Registers a test for each transcript: the disturbance happens wherever it can, and the replies are the same. */
export function testDisturbance(
  disturbance: Disturbance,
  transcripts: readonly Transcript[] = readTranscripts(),
): void {
  const { name } = disturbance;
  let applied = 0;
  for (const transcript of transcripts) {
    Deno.test(`${transcript.name} with ${name}`, async () => {
      const player = new DisturbedPlayer(transcript, disturbance);
      const exceptions = new Set(entriesOf(disturbance, transcript.name));
      for (const transcriptCase of transcript.cases) {
        const played = await player.play(transcriptCase, "everywhere");
        applied += played.applied;
        if (played.error === null) continue;
        const known = entryFor(transcriptCase, exceptions);
        assert(known !== undefined, `${transcriptCase.name}: ${played.error.message}`);
        exceptions.delete(known);
      }
      assertEquals([...exceptions], [], "cases that the disturbance no longer changes");
    });
  }
  if (disturbance.apply === undefined) return;
  Deno.test(`${name}: it can happen at most places`, () => {
    assert(applied > APPLIED_MIN, `it has happened ${applied} times`);
  });
}

/** Of some 3500 requests. */
const APPLIED_MIN = 2000;
