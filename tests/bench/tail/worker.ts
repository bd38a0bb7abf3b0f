/// <reference lib="deno.worker" />
// One of the threads that load a server at the times of a schedule.
import { OpenGenerator, type Request, type TailResult } from "../open_generator.ts";
import { mixesOf } from "./mixes.ts";

/** What to do next. */
export type TailOrder =
  | {
    readonly kind: "open";
    readonly port: number;
    readonly connections: number;
    readonly seed: number;
  }
  /** As fast as the server answers. Answered with requests a second. */
  | { readonly kind: "closed"; readonly count: number }
  /** At a rate, in requests a second. Answered with a TailResult. */
  | {
    readonly kind: "run";
    readonly mix: number;
    readonly rate: number;
    readonly seconds: number;
  };

let mixes: readonly Request[][] = [];
let generator: OpenGenerator | undefined;

self.onmessage = ({ data }: MessageEvent<TailOrder>) => self.postMessage(obey(data));

function obey(order: TailOrder): number | TailResult {
  if (order.kind === "run") return generator!.run(mixes[order.mix]!, order.rate, order.seconds);
  if (order.kind === "closed") return generator!.runClosed(mixes[0]!, order.count);
  mixes = mixesOf(order.seed);
  generator = new OpenGenerator(order.port, order.connections);
  return 0;
}
