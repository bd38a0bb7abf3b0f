import { assertEquals, assertRejects } from "@std/assert";
import { CacheClient } from "../../../lib/proxy/cache_client.ts";
import { CacheError } from "../../../lib/rows/flows/steps.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { waitingFor } from "../../support/waiting.ts";

const VALUE = bytesOf("VALUE k 0 1\r\nx\r\nEND\r\n");
const LF = 0x0a;
const DIAL = { timeoutMs: 60_000, login: null, caCert: null };

/** A cache that sends the same reply to every line. */
async function answer(socket: Deno.TcpConn, reply: Uint8Array): Promise<void> {
  const buffer = new Uint8Array(1024);
  for (;;) {
    const received = await socket.read(buffer);
    if (received === null) break;
    for (const byte of buffer.subarray(0, received)) if (byte === LF) await socket.write(reply);
  }
  socket.close();
}

/** Runs a test, and waits until the client has closed all its connections. */
async function withClient(
  run: (client: CacheClient) => Promise<void>,
  reply = VALUE,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const socket of listener) served.push(answer(socket, reply));
  })();
  await run(new CacheClient("127.0.0.1", listener.addr.port, DIAL));
  await waitingFor("the client to close its connections", Promise.all(served));
  listener.close();
  await accepting;
}

Deno.test("a client of a cache that has left the list replies to requests in progress, then disconnects", () =>
  withClient(async (client) => {
    assertEquals((await client.leaseGet("k")).kind, "value");
    const inProgress = [client.leaseGet("k"), client.leaseGet("k")];
    client.retire();
    for (const request of inProgress) assertEquals((await request).kind, "value");
  }));

Deno.test("a client that retires while it connects leaves no connection", () =>
  withClient(async (client) => {
    const inProgress = client.leaseGet("k");
    client.retire();
    assertEquals((await inProgress).kind, "value");
  }));

Deno.test("a request of a flow that began before the cache left opens no lasting connection", () =>
  withClient(async (client) => {
    assertEquals((await client.leaseGet("k")).kind, "value");
    client.retire();
    assertEquals((await client.leaseGet("k")).kind, "value");
  }));

for (
  const [reply, reason] of [
    [`VALUE ${"k".repeat(20_000)}`, "sends a line longer than 2048 bytes"],
    [
      "VALUE k 0 1073741825\r\n",
      "announces a value of 1073741825 bytes; the longest has 1073741824",
    ],
    ["VALUE k 0\r\n", "announces a value of no bytes; the longest has 1073741824"],
  ] as const
) {
  Deno.test(`a cache that ${reason.slice(0, 40)} is left`, () =>
    withClient(async (client) => {
      const error = await assertRejects(() => client.leaseGet("k"), CacheError);
      assertEquals(error.message, `${client.name}: ${reason}`);
    }, bytesOf(reply)));
}
