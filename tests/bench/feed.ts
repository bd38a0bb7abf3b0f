// A request in process, from the received bytes to the reply's bytes, without a transport: `deno task bench feed
// [name]`. Keys of 12 bytes, values of 100, all in the processor's caches. Numbers of two machines cannot be compared.
import {
  FEED_OPTIONS,
  FeedLoop,
  processorNs,
  REQUEST_COUNT,
  REQUESTS,
} from "../support/load/feed_loop.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { Table } from "./base/measure.ts";
import { EX_USAGE } from "../support/options.ts";

const WARM_UP_ROUNDS = 2000;
const ROUNDS = 500;
const TRIES = 7;

export function main(args: readonly string[]): void {
  const names = Object.keys(REQUESTS);
  const unknown = args.filter((word) => !names.includes(word));
  if (unknown.length > 0) {
    const mistakes = unknown.filter((word) => word !== "--help");
    const lines = mistakes.map((word) => `There are no requests ${word}`);
    // deno-lint-ignore no-console
    console.error([...lines, "Requests:", ...names].join("\n"));
    Deno.exit(mistakes.length === 0 ? 0 : EX_USAGE);
  }
  const table = new Table("request", "ns", "bytes allocated");
  for (const name of args.length > 0 ? args : names) {
    const loop = new FeedLoop(new ConversationSide(FEED_OPTIONS));
    loop.load(name);
    const bytes = loop.allocatedPerRequest(WARM_UP_ROUNDS, ROUNDS);
    const costs = Array.from({ length: TRIES }, () => {
      const before = processorNs();
      loop.run(ROUNDS);
      return (processorNs() - before) / (ROUNDS * REQUEST_COUNT);
    });
    table.row(name, Math.min(...costs).toFixed(0), bytes.toFixed(2));
  }
}
