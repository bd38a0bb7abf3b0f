import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  Client,
  ConnectionError,
  ProtocolError,
  RequestError,
  ServerError,
  TimeoutError,
} from "../../../lib/client/mod.ts";
import { TextWire } from "../../../lib/client/net/text_wire.ts";
import type { Shape } from "../../../lib/client/net/wire.ts";
import { Relay } from "../../support/servers/relay.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { until } from "../../support/servers/server_process.ts";
import { startLeased } from "./servers.ts";

// A server, or a network, that does its worst: every promise settles, and nothing is left behind.

const REPLIES: readonly (readonly [shape: Shape, reply: string])[] = [
  ["meta", "HD O1\r\n"],
  ["meta", "VA 5 f7 c18 t-1 O2 W\r\nab\r\nc\r\n"],
  ["meta", "EN\r\n"],
  ["line", "OK 17\r\n"],
  ["lines", "STAT a 1\r\nVALUE k 0 2 9\r\n\r\n\r\nEND\r\n"],
  ["meta", "SERVER_ERROR out of memory\r\n"],
  ["lines", "ERROR\r\n"],
  ["meta", "VA 0 O3\r\n\r\n"],
];

Deno.test("replies are the same, however they are cut", () => {
  const bytes = bytesOf(REPLIES.map(([, reply]) => reply).join(""));
  const read = (pieces: readonly Uint8Array[]): unknown[] => {
    const wire = new TextWire();
    const replies: unknown[] = [];
    for (const piece of pieces) {
      wire.add(piece);
      for (;;) {
        const reply = replies.length < REPLIES.length
          ? wire.next(REPLIES[replies.length]![0])
          : undefined;
        if (reply === undefined) break;
        replies.push(structuredClone(reply));
      }
    }
    assert(!wire.hasRest);
    return replies;
  };
  const whole = read([bytes]);
  assertEquals(whole.length, REPLIES.length);
  assertEquals(read([...bytes].map((byte) => Uint8Array.of(byte))), whole);
  for (let first = 1; first < bytes.length; first++) {
    for (let second = first + 1; second < bytes.length; second++) {
      const pieces = [[0, first], [first, second], [second]].map(([a, b]) => bytes.subarray(a, b));
      assertEquals(read(pieces), whole);
    }
  }
});

async function withPeer(
  reply: (line: string) => Iterable<string | "close">,
  body: (client: Client) => Promise<void>,
  replyMs = 20_000,
): Promise<void> {
  await using peer = new ScriptedPeer(reply);
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs });
  await body(client);
}

const GARBAGE: readonly (readonly [name: string, reply: string])[] = [
  ["a reply to another request", "EN O99\r\nHD O99\r\n"],
  ["a line without end", "x".repeat(5_000)],
  ["no protocol at all", "HTTP/1.1 400 Bad Request\r\n\r\n"],
  ["a value without length", "VA x O1\r\n"],
  ["a value that is longer than its length", "VA 1 f0 O1\r\nabcdef\r\n"],
  ["two replies to one request", "HD O1\r\nHD O1\r\n"],
  ["binary", "\x81\0\0\0\0\n"],
];

for (const [name, reply] of GARBAGE) {
  Deno.test(`a server that sends ${name}: the connection ends, the next request gets a new one`, () => {
    let isGood = false;
    return withPeer(function* (line): Iterable<string> {
      yield isGood ? `EN ${/O\d+$/.exec(line)![0]}\r\n` : reply;
      isGood = line !== "";
    }, async (client) => {
      const asked = await Promise.allSettled([client.touch("k", 1), client.get("m")]);
      const errors = asked.filter((each) => each.status === "rejected").map(({ reason }) => reason);
      // The one of the request whose reply was due.
      const [first, ...others] = errors;
      assert(first instanceof ProtocolError, `${first}`);
      for (const each of others) {
        assert(each instanceof ConnectionError && !(each instanceof ProtocolError), `${each}`);
      }
      for (;;) {
        const result = await client.get("k").catch((error) => error);
        if (result === undefined) return;
        assert(result instanceof ConnectionError, `${result}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    });
  });
}

Deno.test("errors of the server name server, command and key", () =>
  withPeer(() => ["SERVER_ERROR out of memory\r\n"], async (client) => {
    const error = await assertRejects(() => client.set("k", 1), ServerError);
    assert(/^127\.0\.0\.1:\d+: ms k: .*out of memory/.test(error.message), error.message);
  }));

Deno.test("a server that never answers: every request fails in time, as do those behind it", () =>
  withPeer(
    () => [],
    async (client) => {
      const results = await Promise.allSettled(
        Array.from({ length: 50 }, (_, index) => client.get(`k${index}`)),
      );
      for (const result of results) {
        assert(result.status === "rejected" && result.reason instanceof TimeoutError);
      }
      // While it is down: an error at once. Each attempt that fails makes the pause longer.
      await until(async () => {
        const error = await assertRejects(() => client.get("k"), ConnectionError);
        return error.message.includes("next attempt in");
      });
    },
    50,
  ));

Deno.test("a server that is away is an error, or a miss by choice, and comes back", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const address = `127.0.0.1:${port}`;
  await using client = new Client(address);
  await using missing = new Client(address, { whenDown: "miss" });
  await assertRejects(() => client.get("k"), ConnectionError, address);
  assertEquals(await missing.get("k"), undefined);
  assertEquals(await missing.getMany(["k", "m"]), new Map());
  await assertRejects(() => missing.set("k", 1), ConnectionError);
  await using _server = await startLeased(["-p", `${port}`]);
  while (!await client.set("k", 1).catch(() => false)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assertEquals(await client.get("k"), 1);
});

Deno.test("requests wait for a slow server up to queueBytesMax", async () => {
  await using peer = new ScriptedPeer(() => []);
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 50, queueBytesMax: 2_500 });
  const value = "x".repeat(1_000);
  const sent = Array.from({ length: 4 }, (_, index) => client.set(`k${index}`, value));
  const messages = await Promise.all(sent.map((each) => each.catch(({ message }) => message)));
  assertEquals(messages.map((text) => text.includes("queueBytesMax")), [false, false, false, true]);
});

Deno.test("close ends requests in progress, and leaves nothing", () =>
  withPeer(() => [], async (client) => {
    const waiting = client.get("k");
    const closed = client.close();
    await assertRejects(() => waiting, ConnectionError, "the client was closed");
    await closed;
    await assertRejects(() => client.get("k"), ConnectionError, "the client was closed");
  }));

const CLIENTS = 4;
const REQUESTS = Number(Deno.env.get("LEASED_TESTS_CLIENT_REQUESTS") ?? 20_000);
const IN_FLIGHT = 50;

Deno.test("a network that cuts, strands and loses: no reply is for a wrong request", () =>
  withSeed(drawSeed(), async (seed) => {
    const random = randomFrom(seed);
    await using server = await startLeased();
    using relay = new Relay(server.port);
    relay.passage = () => {
      const drawn = random();
      if (drawn < 0.01) return "cut";
      if (drawn < 0.02) return "cut reply";
      return drawn < 0.021 ? "strand" : "pass";
    };
    let answered = 0;
    let failed = 0;
    await using clients = new AsyncDisposableStack();
    await Promise.all(Array.from({ length: CLIENTS }, async (_, number) => {
      const client = new Client(`127.0.0.1:${relay.port}`, { replyMs: 2_000, connections: 2 });
      clients.use(client);
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < REQUESTS / CLIENTS) {
          const key = `${number}:${next++ % 500}`;
          try {
            if (random() < 0.3) await client.set(key, `${key} ${"x".repeat(random() * 5_000)}`);
            const value = await client.get(key);
            assert(value === undefined || value.startsWith(`${key} `), `${key}: ${value}`);
            answered++;
          } catch (error) {
            if (!(error instanceof RequestError)) throw error;
            failed++;
            await new Promise((resolve) => setTimeout(resolve, 1));
          }
        }
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, work));
    }));
    assert(answered > failed, `${answered} answered, ${failed} failed`);
    assert(failed > 0, "the network has failed sometimes");
  }));
