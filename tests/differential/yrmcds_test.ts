import { assertEquals } from "@std/assert";
import { startLeased } from "../support/servers/leased.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";
import { startYrmcds, yrmcdsInstalled } from "../support/servers/yrmcds.ts";
import { Duel } from "./duel.ts";
import { lockSources, OUR_YRMCDS_OPTIONS, YRMCDS_RULES } from "./yrmcds_rules.ts";
import { needs } from "../support/needs/needs.ts";

const COMMANDS = 6000;

const there = yrmcdsInstalled();

/** See "counts of malformed lines"; and yrmcds was asked for its version before. */
const COUNTED_OTHERWISE = new Set(["text:lock", "text:unlock", "text:version"]);

/** `stats ops`. */
async function opCounts(side: SocketSide): Promise<Map<string, string>> {
  const reply = await side.ask("stats ops\r\n", "END\r\n");
  return new Map(
    [...reply.matchAll(/STAT (\S+) (\d+)/g)].map(([, name, count]) => [name!, count!]),
  );
}

for (const io of TRANSPORTS) {
  Deno.test(
    `random locking gets yrmcds's replies, ${io}${there ? "" : "; yrmcds is not installed"}`,
    needs("yrmcds", there),
    async (): Promise<void> => {
      await using theirs = await startYrmcds();
      await using ours = await startLeased(io, OUR_YRMCDS_OPTIONS);
      await withSeed(drawSeed(), async (seed) => {
        await new Duel(ours, theirs, lockSources(seed), YRMCDS_RULES).run(COMMANDS);
        const ourCounts = await opCounts(ours);
        const theirCounts = await opCounts(theirs);
        for (const [name, count] of theirCounts) {
          if (!COUNTED_OTHERWISE.has(name)) assertEquals(ourCounts.get(name), count, name);
        }
      });
    },
  );
}
