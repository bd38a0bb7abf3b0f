import { startLeased } from "../support/servers/leased.ts";
import { memcachedVersion, startMemcached } from "../support/servers/memcached.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { differencesFrom } from "./differences.ts";
import { Duel, emptyBoth, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { SOURCES } from "./sources.ts";

const COMMANDS = 6000;

const version = memcachedVersion();

for (const io of TRANSPORTS) {
  Deno.test({
    name: `random commands get memcached's replies, ${io}; memcached ${version ?? "not installed"}`,
    ignore: version === undefined,
    async fn(): Promise<void> {
      const theirs = await startMemcached(THEIR_OPTIONS);
      const ours = await startLeased(io, OUR_OPTIONS);
      try {
        for (const sources of Object.values(SOURCES)) {
          await withSeed(drawSeed(), async (seed) => {
            await emptyBoth(ours, theirs);
            await new Duel(ours, theirs, sources(seed, differencesFrom(version!))).run(COMMANDS);
          });
        }
      } finally {
        await ours.close();
        await theirs.close();
      }
    },
  });
}
