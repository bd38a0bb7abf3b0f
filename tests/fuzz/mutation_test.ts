import { startLeased } from "../support/servers/leased.ts";
import { IN_PROCESS_VARIANTS } from "../support/sessions/slices.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { IO_WAYS } from "../support/servers/server_process.ts";
import { fuzzConversations, fuzzSockets } from "./mutation_fuzz.ts";
import { roundsOf } from "../support/rounds.ts";

/** For each size of slices. */
const STREAMS = roundsOf(500);
const SOCKET_STREAMS = roundsOf(15);

for (const { title, options } of IN_PROCESS_VARIANTS) {
  Deno.test(`conversations survive mutated requests${title}`, async () => {
    await withSeed(drawSeed(), (seed) => fuzzConversations(seed, STREAMS, options));
  });

  for (const { name: way, io, ioUring } of IO_WAYS) {
    Deno.test(`the server survives mutated requests over sockets, ${way}${title}`, async () => {
      await withSeed(drawSeed(), async (seed) => {
        await using leased = await startLeased(io, options, undefined, ioUring);
        await fuzzSockets(leased, seed, SOCKET_STREAMS);
      });
    });
  }
}
