import { startLeased } from "../support/servers/leased.ts";
import { startMemcached, testWithMemcached } from "../support/servers/memcached.ts";
import { SLICES } from "../support/sessions/slices.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { differencesFrom } from "./differences.ts";
import { Duel, emptyBoth, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { SOURCES } from "./sources.ts";
import { roundsOf } from "../support/rounds.ts";

/** For each size of slices. */
const COMMANDS = roundsOf(1000);

for (const { io, slice } of TRANSPORTS.flatMap((io) => SLICES.map((slice) => ({ io, slice })))) {
  testWithMemcached(
    `random commands get memcached's replies, ${io}${slice.title}`,
    async (memcached) => {
      await using theirs = await startMemcached(memcached, THEIR_OPTIONS);
      await using ours = await startLeased(io, [...OUR_OPTIONS, ...slice.options]);
      const without = differencesFrom(memcached.version);
      for (const sources of Object.values(SOURCES)) {
        await withSeed(drawSeed(), async (seed) => {
          await emptyBoth(ours, theirs);
          await new Duel(ours, theirs, sources(seed, without)).run(COMMANDS);
        });
      }
    },
  );
}
