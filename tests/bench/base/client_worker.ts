/// <reference lib="deno.worker" />
// One thread of `ClientThreads`.
import { Batches, Generator, type RunResult, type Schedule } from "./generator.ts";
import { dialogueOf, type LoadName } from "./loads.ts";
import { verify } from "./rows.ts";
import { serve } from "./workers.ts";

/** Replies that are compared byte for byte before the load. */
const CHECKED_BATCHES = 50;

let generator: Generator;

export type ClientHandlers = typeof handlers;
const handlers = serve({
  open(port: number, connections: number, load: LoadName, tls: boolean, seed: number): void {
    const dialogue = dialogueOf(load, seed);
    generator = new Generator(port, connections, dialogue, tls);
    // The first gets of keys in their turn are what is measured.
    if (dialogue instanceof Batches && !dialogue.inTurn) {
      verify(generator, dialogue.batches.slice(0, CHECKED_BATCHES));
    }
  },
  run: (schedule: Schedule): RunResult => generator.run(schedule),
  close: (): void => generator[Symbol.dispose](),
});
