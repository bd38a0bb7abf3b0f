import { assert, assertEquals } from "@std/assert";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { startLeased } from "../support/servers/leased.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { parseTranscript, type TranscriptCase } from "../support/sessions/transcript.ts";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { explore, walk } from "./explore.ts";
import { WALKS } from "./scenarios/large.ts";
import { OriginWorld } from "./origins/origin_world.ts";
import { OPTIONS } from "./cache_node.ts";
import { BUCKETS } from "./scenarios/buckets.ts";
import { ORIGINS } from "./scenarios/origins.ts";
import { RIGHTS } from "./scenarios/rights.ts";
import { ROWS } from "./scenarios/rows.ts";
import { RightWorld } from "./origins/right_world.ts";
import { BucketWorld } from "./versions/bucket_world.ts";
import { World } from "./world.ts";

// Every interleaving of a few clients over the real store. The larger ones are those of `deno task explore`.

/** On all random ways through a scenario together. */
const WALK_STEPS = 10_000;

const expectation = ({ wrongAfter }: { readonly wrongAfter?: number }): string =>
  wrongAfter === undefined ? "never wrong" : `wrong after ${wrongAfter}`;

/** Ways to wrong states that clients can go. */
const ways: TranscriptCase[] = [];

for (const row of ROWS) {
  Deno.test(`explorer, ${row.name}: ${expectation(row)}`, () => {
    const { wrong } = explore(new World(row));
    assertEquals(wrong?.steps, row.wrongAfter, wrong?.transcript);
    for (const text of wrong?.playable ?? []) ways.push(...parseTranscript(row.name, text).cases);
  });
}

for (const scenario of BUCKETS) {
  Deno.test(`explorer, ${scenario.name}: ${expectation(scenario)}`, () => {
    const { wrong } = explore(new BucketWorld(scenario));
    assertEquals(wrong?.steps, scenario.wrongAfter, wrong?.transcript);
  });
}

for (const scenario of ORIGINS) {
  Deno.test(`explorer, ${scenario.name}: ${expectation(scenario)}`, () => {
    const { wrong } = explore(new OriginWorld(scenario));
    assertEquals(wrong?.steps, scenario.wrongAfter, wrong?.transcript);
  });
}

for (const scenario of RIGHTS) {
  Deno.test(`explorer, ${scenario.name}: ${expectation(scenario)}`, () => {
    const { wrong } = explore(new RightWorld(scenario));
    assertEquals(wrong?.steps, scenario.wrongAfter, wrong?.transcript);
  });
}

for (const row of WALKS) {
  Deno.test(`explorer, ${row.name}: never wrong`, () =>
    withSeed(drawSeed(), (seed) => {
      const wrong = walk(new World(row), WALK_STEPS, randomFrom(seed));
      assertEquals(wrong, undefined, wrong?.transcript);
    }));
}

Deno.test("the ways to wrong states can be played to any server", async (t) => {
  assert(ways.length > 5, "the tests before have found them");
  for (const way of ways) await play(new ConversationSide(OPTIONS), way);
  for (const io of TRANSPORTS) {
    await using server = await startLeased(io, OPTIONS);
    // A clock that runs by itself does not stop at a deadline.
    for (const way of ways.filter((one) => secondsOf(one) === 0)) {
      await server.ask("token drop_all unsafe\r\n", "\r\n");
      await server.ask("flush_all\r\n", "\r\n");
      await t.step(`${way.name}, ${io}`, () => play(server, way));
    }
  }
});
