import { startLeased } from "../support/leased.ts";
import { memcachedVersion, startMemcached } from "../support/memcached.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/server_process.ts";
import { BinaryCommandSource } from "./binary_commands.ts";
import { CommandSource } from "./commands.ts";
import { differencesFrom } from "./differences.ts";
import { Duel, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { MetaCommandSource } from "./meta_commands.ts";

const COMMANDS = 6000;

const version = memcachedVersion();

const SOURCES = [CommandSource, MetaCommandSource, BinaryCommandSource];

for (const io of TRANSPORTS) {
  Deno.test({
    name: `random commands get memcached's replies, ${io}; memcached ${version ?? "not installed"}`,
    ignore: version === undefined,
    async fn(): Promise<void> {
      const theirs = await startMemcached(THEIR_OPTIONS);
      const ours = await startLeased(io, OUR_OPTIONS);
      try {
        for (const Source of SOURCES) {
          await withSeed(drawSeed(), async (seed) => {
            await new Duel(ours, theirs, new Source(seed, differencesFrom(version!))).run(COMMANDS);
          });
        }
      } finally {
        await ours.close();
        await theirs.close();
      }
    },
  });
}
