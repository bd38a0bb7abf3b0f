import { assertLess } from "@std/assert";
import { ConversationSide } from "../support/conversation_side.ts";
import { BATCHES, FEED_OPTIONS, FeedLoop } from "../support/feed_loop.ts";

/** What measuring itself costs, and V8's own business, spread over the requests. */
const BYTES_PER_REQUEST_MAX = 8;

for (const name of Object.keys(BATCHES)) {
  Deno.test(`feed() allocates nothing for ${name}`, () => {
    const loop = new FeedLoop(new ConversationSide(FEED_OPTIONS));
    loop.load(name);
    assertLess(loop.allocatedPerRequest(1000, 200), BYTES_PER_REQUEST_MAX);
  });
}
