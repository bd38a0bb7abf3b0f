import { startLeased } from "../support/servers/leased.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { fuzzConversations, fuzzSockets } from "./mutation_fuzz.ts";

const STREAMS = 3000;
const SOCKET_STREAMS = 60;

Deno.test("conversations survive mutated requests", async () => {
  await withSeed(drawSeed(), (seed) => fuzzConversations(seed, STREAMS));
});

for (const io of TRANSPORTS) {
  Deno.test(`the server survives mutated requests over sockets, ${io}`, async () => {
    await withSeed(drawSeed(), async (seed) => {
      const leased = await startLeased(io);
      try {
        await fuzzSockets(leased, seed, SOCKET_STREAMS);
      } finally {
        await leased.close();
      }
    });
  });
}
