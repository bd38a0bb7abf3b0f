/// <reference lib="deno.worker" />
// One thread of `ClientThreads`.
import { type Batch, Generator } from "../generator.ts";
import { checkReply, ROWS, seededRandom, THREAD_ROWS } from "../rows.ts";

/** What to do next. */
export type ClientOrder =
  | {
    readonly kind: "open";
    readonly port: number;
    readonly connections: number;
    /** Name of the row. */
    readonly row: string;
    /** Whether to send the load that the row is compared with. */
    readonly against: boolean;
    readonly tls: boolean;
    readonly seed: number;
  }
  | { readonly kind: "run"; readonly seconds: number }
  | { readonly kind: "close" };

/** Replies that are compared byte for byte before the load. */
const CHECKED_BATCHES = 50;

let batches: readonly Batch[] = [];
let generator: Generator | undefined;

self.onmessage = ({ data }: MessageEvent<ClientOrder>) => self.postMessage(obey(data));

/** @returns Requests or keys a second, for `run`. */
function obey(order: ClientOrder): number {
  if (order.kind === "run") {
    const { count, seconds } = generator!.run(batches, order.seconds);
    return count / seconds;
  }
  if (order.kind === "close") {
    generator!.close();
    return 0;
  }
  const row = [...ROWS, ...THREAD_ROWS].find(({ name }) => name === order.row)!;
  const random = seededRandom(order.seed);
  batches = order.against ? row.against!(random) : row.batches(random);
  generator = new Generator(order.port, order.connections, order.tls);
  generator.verify(batches.slice(0, CHECKED_BATCHES), checkReply(batches));
  return 0;
}
