import { assertGreater } from "@std/assert";
import { roundsOf } from "../support/rounds.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { IO_WAYS } from "../support/servers/server_process.ts";
import { killServers } from "./kills.ts";

/** In each way. `deno task kills` does more. */
const KILLS = roundsOf(6);

for (const way of IO_WAYS) {
  Deno.test(`${way.name}: after ${KILLS} kills under load no promised token is missing, and no id came twice`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      await withSeed(drawSeed(), async (seed) => {
        const report = await killServers({ way, folder, kills: KILLS, seed });
        assertGreater(report.promised, KILLS);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
