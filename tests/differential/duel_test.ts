import { startLeased } from "../support/servers/leased.ts";
import { startMemcached, testWithMemcached } from "../support/servers/memcached.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { differencesFrom } from "./differences.ts";
import { Duel, emptyBoth, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { SOURCES } from "./sources.ts";

const COMMANDS = 6000;

for (const io of TRANSPORTS) {
  testWithMemcached(`random commands get memcached's replies, ${io}`, async (memcached) => {
    const theirs = await startMemcached(memcached, THEIR_OPTIONS);
    const ours = await startLeased(io, OUR_OPTIONS);
    const without = differencesFrom(memcached.version);
    try {
      for (const sources of Object.values(SOURCES)) {
        await withSeed(drawSeed(), async (seed) => {
          await emptyBoth(ours, theirs);
          await new Duel(ours, theirs, sources(seed, without)).run(COMMANDS);
        });
      }
    } finally {
      await ours.close();
      await theirs.close();
    }
  });
}
