// The same random commands to memcached and to this server: `deno task differential [commands]`. Replies must be equal byte for byte, but for cas
// ids, which must belong to the same changes. Ends with status 1 at the first difference, naming the seed.
import { startLeased } from "../support/leased.ts";
import { memcachedVersion, startMemcached } from "../support/memcached.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/server_process.ts";
import { BinaryCommandSource } from "./binary_commands.ts";
import { CommandSource } from "./commands.ts";
import { differencesFrom } from "./differences.ts";
import { Duel, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { MetaCommandSource } from "./meta_commands.ts";

const COMMANDS = 240_000;
/** Another choice of commands is drawn after so many. */
const COMMANDS_A_SEED = 10_000;
/** The seed chooses one of them. */
const SOURCES = [
  { kind: "classic", Source: CommandSource },
  { kind: "meta", Source: MetaCommandSource },
  { kind: "binary", Source: BinaryCommandSource },
] as const;

// deno-lint-ignore no-console
const say = console.log;
const version = memcachedVersion();
if (version === undefined) {
  say("memcached is not installed: nothing to compare with");
  Deno.exit(0);
}
const without = differencesFrom(version);
say(`without, as memcached ${version} differs: ${[...without].join(", ")}`);
const commands = Math.ceil(Number(Deno.args[0] ?? COMMANDS) / TRANSPORTS.length);
for (const io of TRANSPORTS) {
  const theirs = await startMemcached(THEIR_OPTIONS);
  const ours = await startLeased(io, OUR_OPTIONS);
  try {
    let done = 0;
    while (done < commands) {
      await withSeed(drawSeed(), async (seed) => {
        const { kind, Source } = SOURCES[seed % SOURCES.length]!;
        const duel = new Duel(ours, theirs, new Source(seed, without));
        await duel.run(Math.min(COMMANDS_A_SEED, commands - done));
        done += duel.commands;
        say(`${done} commands, ${io}: equal (${kind}, seed ${seed})`);
      });
    }
  } finally {
    await ours.close();
    await theirs.close();
  }
}
