// The same random commands to memcached, or to yrmcds, and to this server: `deno task differential
// [commands]`. Replies must be equal byte for byte, but for cas ids, which must belong to the same
// changes, and for what differences.ts names. Ends with status 1 at the first difference, naming
// the seed.
import { startLeased } from "../support/servers/leased.ts";
import { MEMCACHEDS, startMemcached } from "../support/servers/memcached.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";
import { startYrmcds, yrmcdsInstalled } from "../support/servers/yrmcds.ts";
import { differencesFrom, YRMCDS_DIFFERENCES } from "./differences.ts";
import { Duel, emptyBoth, OUR_OPTIONS, THEIR_OPTIONS } from "./duel.ts";
import { SOURCES } from "./sources.ts";
import { lockSources, OUR_YRMCDS_OPTIONS, YRMCDS_RULES } from "./yrmcds_rules.ts";

const COMMANDS = 240_000;
/** Share of duels about locks. */
const LOCKS_SHARE = 0.25;
/** Commands between two choices of commands. */
const COMMANDS_A_SEED = 10_000;
/** The seed chooses one of them. */
const KINDS = Object.entries(SOURCES);

// deno-lint-ignore no-console
const say = console.log;
const commands = Math.ceil(Number(Deno.args[0] ?? COMMANDS) / TRANSPORTS.length);

/** Runs duels between two servers up to a number of commands, then stops both. */
async function runDuels(
  theirs: SocketSide,
  ours: SocketSide,
  total: number,
  makeDuel: (seed: number) => Promise<{ kind: string; duel: Duel }>,
): Promise<void> {
  try {
    for (let done = 0; done < total;) {
      await withSeed(drawSeed(), async (seed) => {
        const { kind, duel } = await makeDuel(seed);
        await duel.run(Math.min(COMMANDS_A_SEED, total - done));
        done += duel.commands;
        say(`${done} commands, ${theirs.name} and ${ours.name}: equal (${kind}, seed ${seed})`);
      });
    }
  } finally {
    await ours.close();
    await theirs.close();
  }
}

if (MEMCACHEDS.length === 0) say("memcached is not installed: nothing to compare with");
for (const memcached of MEMCACHEDS) {
  const { version } = memcached;
  const without = differencesFrom(version);
  say(`without, as memcached ${version} differs: ${[...without].join(", ")}`);
  for (const io of TRANSPORTS) {
    const theirs = await startMemcached(memcached, THEIR_OPTIONS);
    const ours = await startLeased(io, OUR_OPTIONS);
    await runDuels(theirs, ours, Math.ceil(commands * (1 - LOCKS_SHARE)), async (seed) => {
      const [kind, sources] = KINDS[seed % KINDS.length]!;
      await emptyBoth(ours, theirs);
      return { kind, duel: new Duel(ours, theirs, sources(seed, without)) };
    });
  }
}

if (!yrmcdsInstalled()) {
  say("yrmcds is not installed: nothing to compare with");
} else {
  say(`without, as yrmcds differs: ${YRMCDS_DIFFERENCES.map(([name]) => name).join(", ")}`);
  for (const io of TRANSPORTS) {
    const theirs = await startYrmcds();
    const ours = await startLeased(io, OUR_YRMCDS_OPTIONS);
    await runDuels(theirs, ours, Math.ceil(commands * LOCKS_SHARE), (seed) => {
      const duel = new Duel(ours, theirs, lockSources(seed), YRMCDS_RULES);
      return Promise.resolve({ kind: "locks", duel });
    });
  }
}
