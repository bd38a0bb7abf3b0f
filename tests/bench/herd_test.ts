import { assert, assertEquals } from "@std/assert";
import { ServerProcess, TRANSPORTS } from "../support/servers/server_process.ts";
import { runHerd } from "./herd.ts";
import { LEASE_FLAG, LEASES, META_LEASES, WARM_LEASES } from "./herd_ways.ts";

// A small run of the bench. It measures time, but safety holds at any speed.

for (const [index, way] of [META_LEASES, LEASES, WARM_LEASES].entries()) {
  Deno.test(`a small herd by ${way.name} sees nothing stale that is not marked so`, async () => {
    const io = TRANSPORTS[index % TRANSPORTS.length]!;
    await using server = await ServerProcess.start({ io, args: ["-z", LEASE_FLAG] });
    const options = { clients: 4, seconds: 0.3, updateEveryMs: 200 };
    const { reads, updates, ...result } = await runHerd(() => server.connect(), way, options);
    assert(reads > 0 && updates > 0);
    assertEquals([result.stale - result.marked, result.left], [0, 0]);
  });
}
