import { assert, assertEquals } from "@std/assert";
import { startLeased } from "../support/servers/leased.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { runHerd } from "./herd.ts";
import { LEASE_FLAG, LEASES, META_LEASES, WARM_LEASES } from "./herd_ways.ts";

// A small run of the bench. It measures time, but safety holds at any speed.

for (const [index, way] of [META_LEASES, LEASES, WARM_LEASES].entries()) {
  Deno.test(`a small herd by ${way.name} sees nothing stale that is not marked so`, async () => {
    await using server = await startLeased(TRANSPORTS[index % TRANSPORTS.length]!, [
      "-z",
      LEASE_FLAG,
    ]);
    const result = await runHerd(server, way, { clients: 4, seconds: 0.3, updateEveryMs: 200 });
    assert(result.reads > 0 && result.updates > 0);
    assertEquals([result.staleReads - result.markedReads, result.staleLeft], [0, 0]);
  });
}
