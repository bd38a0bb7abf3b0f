import { roundsOf } from "../../support/rounds.ts";
import { type Client, testIoWays as test } from "../../support/servers/server_process.ts";
import { opcodeOf, packetText } from "../../support/sessions/binary_text.ts";

const ROUNDS = roundsOf(100);
const HEADER_BYTES = 24;

const LOCK = packetText({ opcode: opcodeOf("Lock"), key: "k" });
const QUIT = packetText({ opcode: opcodeOf("Quit") });

/** Ways to lock `k` and to part, each to the last byte that the server sends. */
const FAREWELLS: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  "text": async (client) => {
    await client.ask("lock k\r\n", "OK\r\n");
    await client.send("quit\r\n");
    await client.rest();
  },
  "text in one piece": (client) => client.ask("lock k\r\nquit\r\n", "OK\r\n"),
  "binary": async (client) => {
    await client.send(LOCK);
    await client.take(HEADER_BYTES);
    await client.send(QUIT);
    await client.take(HEADER_BYTES);
  },
  "binary in one piece": async (client) => {
    await client.send(LOCK + QUIT);
    await client.take(2 * HEADER_BYTES);
  },
};

for (const [name, part] of Object.entries(FAREWELLS)) {
  test(`locks are free when the last reply before the end is seen: ${name}`, async (start) => {
    await using server = await start();
    using other = await server.connect();
    await other.ask("set k 0 0 1\r\nv\r\n", "STORED\r\n");
    // New connections go to the thread with the fewest, so that half of them are on the other one.
    for (let round = 0; round < ROUNDS; round++) {
      using client = await server.connect();
      await part(client);
      await other.ask("lock k\r\nunlock k\r\n", "OK\r\nOK\r\n");
    }
    await server.stop();
  });
}
