import { assertLess } from "@std/assert";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import {
  BYTES_PER_REQUEST_MAX,
  FEED_OPTIONS,
  FeedLoop,
  REQUESTS,
} from "../support/load/feed_loop.ts";

// With several threads, reads go without the mutex.
for (const threads of ["1", "2"]) {
  for (const name of Object.keys(REQUESTS)) {
    Deno.test(`feed() allocates nothing for ${name}, -t ${threads}`, () => {
      const loop = new FeedLoop(new ConversationSide([...FEED_OPTIONS, "-t", threads]));
      loop.load(name);
      assertLess(loop.allocatedPerRequest(1000, 200), BYTES_PER_REQUEST_MAX);
    });
  }
}
