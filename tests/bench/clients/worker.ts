/// <reference lib="deno.worker" />
// One thread of `ClientThreads`.
import { Batches, Generator, type RunResult, type Schedule } from "../generator.ts";
import { checkReply } from "../rows.ts";
import { dialogueOf, type LoadName } from "./loads.ts";

/** What to do next. */
export type ClientOrder =
  | {
    readonly kind: "open";
    readonly port: number;
    readonly connections: number;
    readonly load: LoadName;
    readonly tls: boolean;
    readonly seed: number;
  }
  | { readonly kind: "run"; readonly schedule: Schedule }
  | { readonly kind: "close" };

/** Replies that are compared byte for byte before the load. */
const CHECKED_BATCHES = 50;

let generator: Generator | undefined;

self.onmessage = ({ data }: MessageEvent<ClientOrder>) => self.postMessage(obey(data));

/** Returns the result of `run`. */
function obey(order: ClientOrder): RunResult | null {
  if (order.kind === "run") return generator!.run(order.schedule);
  if (order.kind === "close") {
    generator!.close();
    return null;
  }
  const dialogue = dialogueOf(order.load, order.seed);
  generator = new Generator(order.port, order.connections, dialogue, order.tls);
  // The first gets of keys in their turn are what is measured.
  if (dialogue instanceof Batches && !("each" in Object(order.load))) {
    generator.verify(dialogue.batches.slice(0, CHECKED_BATCHES), checkReply(dialogue.batches));
  }
  return null;
}
