import { assert, assertEquals } from "@std/assert";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { startLeased } from "../support/servers/leased.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { play, secondsOf } from "../support/sessions/play.ts";
import { parseTranscript } from "../support/sessions/transcript.ts";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { type Exploration, explore, walk } from "./explore.ts";
import { WALKS } from "./scenarios/large.ts";
import { OPTIONS } from "./cache_node.ts";
import { EXPLORED, type Explored } from "./scenarios/rows.ts";
import { World } from "./world.ts";

// Every interleaving of a few clients over the real store. The larger ones are those of `deno task explore`.

/** On all random ways through a scenario together. */
const WALK_STEPS = 10_000;

/** The findings by the scenario's name: the tests of a scenario explore it once. */
const explorations = new Map<string, Exploration>();

function explored({ name, world }: Explored): Exploration {
  const known = explorations.get(name) ?? explore(world());
  explorations.set(name, known);
  return known;
}

for (const scenario of EXPLORED) {
  const { name, wrongAfter } = scenario;
  const expectation = wrongAfter === undefined ? "never wrong" : `wrong after ${wrongAfter}`;
  Deno.test(`explorer, ${name}: ${expectation}`, () => {
    const { wrong } = explored(scenario);
    assertEquals(wrong?.steps, wrongAfter, wrong?.transcript);
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
  const ways = EXPLORED.filter(({ wrongAfter }) => wrongAfter !== undefined).flatMap((scenario) =>
    (explored(scenario).wrong?.playable ?? []).flatMap((text) =>
      parseTranscript(scenario.name, text).cases
    )
  );
  assert(ways.length > 5, `${ways.length} ways`);
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
