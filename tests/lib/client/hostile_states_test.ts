import { assert, assertEquals, assertRejects } from "@std/assert";
import { createServer } from "node:net";
import {
  bytesCodec,
  Cache,
  Client,
  type ClientOptions,
  ConnectionError,
  ProtocolError,
  RequestError,
  ServerError,
  TimeoutError,
  UnfinishedError,
} from "../../../lib/client/mod.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { until } from "../../support/servers/server_process.ts";

// A server that closes, or is silent, in each state of a connection; and the pauses before it is dialled again.

/** Answers a line as a server that has no values. */
function answer(line: string): string[] {
  const opaque = /O\d+$/.exec(line)?.[0];
  if (line.startsWith("mg ")) return [`EN ${opaque}\r\n`];
  if (line.startsWith("lock ")) return ["OK 5\r\n"];
  if (line.startsWith("unlock ")) return ["OK\r\n"];
  return line.startsWith("set login") ? [] : ["STORED\r\n"];
}

const login = { user: "anna", password: "secret" };
const get = (cache: Cache): Promise<unknown> => cache.get("k");

/** The server's bytes, from which line on; then it closes, or is silent. */
const STATES: Record<string, {
  readonly begins: RegExp;
  readonly pieces: readonly string[];
  readonly options?: ClientOptions<unknown>;
  readonly call?: (cache: Cache) => Promise<unknown>;
}> = {
  "at the login": { begins: /^set login|^anna/, pieces: [], options: { login } },
  "within the reply to the login": { begins: /^anna/, pieces: ["STO"], options: { login } },
  "after the login": { begins: /^mg/, pieces: [], options: { login } },
  "within a TLS handshake": { begins: /./s, pieces: ["\x16\x03\x03"], options: { tls: {} } },
  "before a reply": { begins: /^mg/, pieces: [] },
  "within a status": { begins: /^mg/, pieces: ["E"] },
  "within a line's end": { begins: /^mg/, pieces: ["EN O1\r"] },
  "within a line of a value": { begins: /^mg/, pieces: ["VA 10 f0"] },
  "within a value": { begins: /^mg/, pieces: ["VA 10 f0 O1\r\n12345"] },
  "behind a value": { begins: /^mg/, pieces: ["VA 1 f0 O1\r\n5\r"] },
  "within a value of a gibibyte": { begins: /^mg/, pieces: ["VA 1073741824 f0 O1\r\nx", "y"] },
  "within lines": {
    begins: /^stats/,
    pieces: ["STAT a 1\r\n", "STAT b 2\r\n"],
    call: (cache) => cache.stats(),
  },
  "at a lock": { begins: /^lock/, pieces: [], call: (cache) => cache.lock("k") },
  "within a lock's reply": { begins: /^lock/, pieces: ["OK 1"], call: (cache) => cache.lock("k") },
  "under a lock": {
    begins: /^mg/,
    pieces: [],
    call: (cache) => cache.withLock("k", (section) => section.get("k")),
  },
  "within a lease": {
    begins: /^mg/,
    pieces: ["VA 0 f0 c5 "],
    call: (cache) => cache.getOrLoad("k", () => 1),
  },
};

for (const [state, { begins, pieces, options, call = get }] of Object.entries(STATES)) {
  for (const ending of ["closes", "is silent"] as const) {
    Deno.test(`a server that ${ending} ${state}: a clear error, then it is served again`, async () => {
      let isGood = false;
      await using peer = new ScriptedPeer(function* (line): Iterable<string> {
        if (isGood || !begins.test(line)) return yield* answer(line);
        yield* pieces;
        if (ending === "closes") yield "close";
      });
      const address = `127.0.0.1:${peer.port}`;
      const limits = ending === "closes" ? 20_000 : 50;
      const ms = { connectMs: limits, replyMs: limits };
      await using cache = new Cache(address, { ...ms, ...options });
      const error = await assertRejects(() => call(cache));
      assert(error instanceof RequestError, `${error}`);
      assert(/^127\.0\.0\.1:\d+: (?:mg|lock|stats)\b.*: ./.test(error.message), error.message);
      if (ending === "is silent" && state !== "under a lock") {
        assert(error instanceof TimeoutError, `${error}`);
      }
      isGood = true;
      const { connections } = peer;
      const isServed = (): Promise<boolean> => cache.get("k").then(() => true, () => false);
      // The peer knows no TLS: it can only be dialled, again and again.
      if (options?.tls === undefined) await until(isServed);
      else await until(async () => await isServed() || peer.connections > connections + 1);
      assert(peer.connections > connections || state === "under a lock", `${peer.connections}`);
    });
  }
}

Deno.test("lines without end, a byte at a time: the request fails in time", async () => {
  await using peer = new ScriptedPeer(function* (line): Iterable<string> {
    while (line === "stats") yield "STAT a 1\r\n";
  });
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 50 });
  await assertRejects(() => client.stats(), TimeoutError, "stats");
});

Deno.test("a bad reply fails all requests of its connection, and none of others", async () => {
  await using peer = new ScriptedPeer(function* (line): Iterable<string> {
    if (line.startsWith("mg good")) yield* answer(line);
    if (line.startsWith("mg bad")) yield "HTTP/1.1 400\r\n";
  });
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000, connections: 2 });
  const keys = ["good", "bad", "good", "good", "good", "good"];
  const results = await Promise.allSettled(keys.map((key) => client.get(key)));
  assertEquals(results.map(({ status }) => status), [
    ...["fulfilled", "rejected", "fulfilled", "rejected", "fulfilled", "rejected"],
  ]);
  const [, bad, , behind] = results as PromiseRejectedResult[];
  assertEquals([bad!.reason.name, behind!.reason.name], ["ProtocolError", "ConnectionError"]);
});

Deno.test("bytes that no request asked for are no reply to the next one", () =>
  withClock(async () => {
    await using peer = new ScriptedPeer((line) => [`${answer(line)[0]}EN O2\r\n`]);
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
    assertEquals(await client.get("k"), undefined);
    await assertRejects(() => client.get("m"), ConnectionError, "the server is down");
    assertEquals(client.counters.lostConnections, 1);
  }));

Deno.test("requests behind a long value are sent when a slow server has read it", async () => {
  const bytes = new Uint8Array(2 ** 25);
  let isReading!: () => void;
  const reading = new Promise<void>((resolve) => isReading = resolve);
  const server = createServer({ pauseOnConnect: true }, async (socket) => {
    await reading;
    let text = "";
    socket.on("data", (piece: Uint8Array) => {
      text = (text + new TextDecoder("latin1").decode(piece)).slice(-20);
      if (text.endsWith("mg k v f O2\r\n")) socket.write("HD O1\r\nEN O2\r\n");
    });
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const limits = { connectMs: 20_000, replyMs: 20_000, valueBytesMax: bytes.length };
  const options = { ...limits, codec: bytesCodec };
  const client = new Client(`127.0.0.1:${port}`, options);
  const bounded = new Client(`127.0.0.1:${port}`, { ...options, queueBytesMax: 1_000 });
  const closed = assertRejects(() => bounded.set("k", bytes), ConnectionError, "closed");
  const stored = client.set("k", bytes);
  // In a later turn of the event loop, when the socket takes no more.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const found = client.get("k");
  // Bytes that the socket holds count, too.
  await assertRejects(() => bounded.get("k"), ConnectionError, "queueBytesMax is exceeded");
  await bounded.close();
  await closed;
  isReading();
  assertEquals([await stored, await found], [true, undefined]);
  await client.close();
  await new Promise((resolve) => server.close(resolve));
});

Deno.test("garbage is no miss for commands; a flow loads, and keeps nothing", async () => {
  await using peer = new ScriptedPeer(() => ["HTTP/1.1 400\r\n"]);
  const limits = { connectMs: 20_000, replyMs: 20_000 };
  const address = `127.0.0.1:${peer.port}`;
  for (
    const call of [get, (cache: Cache) => cache.getMany(["k"]), (cache: Cache) => cache.gets("k")]
  ) {
    await using cache = new Cache(address, { ...limits, whenDown: "miss" });
    await assertRejects(() => call(cache), ProtocolError);
  }
  await using cache = new Cache(address, { ...limits, whenDown: "miss" });
  assertEquals(await cache.getOrLoad("k", () => "v"), "v");
  await using failing = new Cache(address, limits);
  await assertRejects(() => failing.getOrLoad("k", () => "v"), ProtocolError);
});

// --- pauses ----------------------------------------------------------------------------------------

const FIRST_MS = 50;
const LONGEST_MS = 1_000;

/** Runs with a clock that only `advance` moves. */
async function withClock(body: (advance: (ms: number) => void) => Promise<void>): Promise<void> {
  const { now } = performance;
  let nowMs = now.call(performance);
  performance.now = () => nowMs;
  try {
    await body((ms) => void (nowMs += ms));
  } finally {
    performance.now = now;
  }
}

/** Returns how long the server is not dialled, in ms; 0: it is dialled by the request. */
async function pauseOf(client: Client): Promise<number> {
  const error = await assertRejects(() => client.get("k"), ConnectionError);
  return Number(/next attempt in (\d+) ms$/.exec(error.message)?.[1] ?? 0);
}

Deno.test("a server that accepts and closes at once: the pauses double, up to 1 s", () =>
  withClock(async (advance) => {
    await using peer = new ScriptedPeer(() => ["close"]);
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
    for (let failures = 1; failures < 12; failures++) {
      assertEquals(await pauseOf(client), 0);
      const longestMs = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS);
      const pauseMs = await pauseOf(client);
      assert(pauseMs >= longestMs / 2 && pauseMs <= longestMs, `${failures}: ${pauseMs} ms`);
      assertEquals(peer.connections, failures);
      await assertRejects(() => client.lock("k"), ConnectionError, "next attempt in");
      assertEquals(peer.connections, failures);
      advance(pauseMs);
    }
  }));

Deno.test("clients that lost the same server come back at different times", () =>
  withClock(async () => {
    await using peer = new ScriptedPeer(() => ["close"]);
    const { random } = Math;
    try {
      // From half of the first pause up to all of it, rounded up to whole milliseconds.
      for (const [drawn, pauseMs] of [[0, 25], [0.5, 38], [0.99, 50]] as const) {
        Math.random = () => drawn;
        await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
        assertEquals(await pauseOf(client), 0);
        assertEquals(await pauseOf(client), pauseMs);
      }
    } finally {
      Math.random = random;
    }
  }));

Deno.test("a failure of all connections is one failure", () =>
  withClock(async () => {
    let waiting = 0;
    await using peer = new ScriptedPeer(() => {
      waiting++;
      return [];
    });
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000, connections: 8 });
    const sent = Promise.allSettled(Array.from({ length: 8 }, () => client.get("k")));
    await until(() => waiting === 8);
    await peer[Symbol.asyncDispose]();
    await sent;
    assertEquals(peer.connections, 8);
    const pauseMs = await pauseOf(client);
    assert(pauseMs > 0 && pauseMs <= FIRST_MS, `${pauseMs} ms`);
    assertEquals(client.counters.lostConnections, 8);
  }));

Deno.test("a server that has answered is dialled again at once, and its failures are forgotten", () =>
  withClock(async (advance) => {
    let reply = (line: string): string[] => [...answer(line), "close"];
    await using peer = new ScriptedPeer((line) => reply(line));
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
    const close = (): string[] => ["close"];
    for (let round = 0; round < 3; round++) {
      reply = close;
      assertEquals(await pauseOf(client), 0);
      const pauseMs = await pauseOf(client);
      assert(pauseMs > 0 && pauseMs <= FIRST_MS, `${pauseMs} ms`);
      advance(pauseMs);
      reply = answer;
      assertEquals(await client.get("k"), undefined);
      reply = close;
      await assertRejects(() => client.get("k"), ConnectionError);
      reply = answer;
      assertEquals(await client.get("k"), undefined);
      reply = close;
      await assertRejects(() => client.get("k"), ConnectionError);
    }
  }));

Deno.test("after a failure one request tries the server, and the others fail at once; errors alone are no service", () =>
  withClock(async (advance) => {
    let reply: (line: string) => string[] = () => ["close"];
    await using peer = new ScriptedPeer((line) => reply(line));
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000, connections: 4 });
    const messagesOf = async (): Promise<string[]> => {
      const asked = Array.from({ length: 8 }, () => client.get("k").then(() => "", String));
      const locked = client.lock("k").then(() => "", String);
      return (await Promise.all([...asked, locked])).map((text) => text.replace(/^.*: /, ""));
    };
    const others = new Array(8).fill(
      "the server is down; another request tries whether it answers",
    );
    assertEquals(await pauseOf(client), 0);
    advance(await pauseOf(client));
    reply = () => ["ERROR Too many open connections\r\n", "close"];
    assertEquals((await messagesOf()).slice(1), others);
    assertEquals(peer.connections, 2);
    // The refusal comes before the end of the connection.
    let pauseMs = 0;
    await until(async () => (pauseMs = await pauseOf(client)) > 0);
    assert(pauseMs >= FIRST_MS, `${pauseMs} ms`);
    advance(pauseMs);
    reply = answer;
    assertEquals(await messagesOf(), ["", ...others]);
    assertEquals(peer.connections, 3);
    await Promise.all(Array.from({ length: 8 }, () => client.get("k")));
    assertEquals(peer.connections, 6);
    await using single = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
    reply = () => ["close"];
    assertEquals(await pauseOf(single), 0);
    advance(await pauseOf(single));
    reply = answer;
    const asked = Array.from({ length: 3 }, () => single.get("k").then(() => "", () => "down"));
    assertEquals(await Promise.all(asked), ["", "down", "down"]);
  }));

Deno.test("a server that was down and answers with an error is asked again, on the same connection", () =>
  withClock(async (advance) => {
    let reply: (line: string) => string[] = () => ["close"];
    await using peer = new ScriptedPeer((line) => reply(line));
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000, connections: 3 });
    assertEquals(await pauseOf(client), 0);
    advance(await pauseOf(client));
    reply = () => ["SERVER_ERROR busy\r\n"];
    for (let times = 0; times < 4; times++) {
      await assertRejects(() => client.get("k"), ServerError, "busy");
    }
    reply = answer;
    assertEquals(await client.get("k"), undefined);
    assertEquals(peer.connections, 2);
  }));

Deno.test("a lock that tries a server that was down is the only request that waits", () =>
  withClock(async (advance) => {
    let reply: (line: string) => string[] = () => ["close"];
    await using peer = new ScriptedPeer((line) => reply(line));
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
    assertEquals(await pauseOf(client), 0);
    advance(await pauseOf(client));
    let asked = false;
    reply = () => {
      asked = true;
      return [];
    };
    const aborter = new AbortController();
    const locking = assertRejects(() => client.lock("k", { signal: aborter.signal }), DOMException);
    await until(() => asked);
    await assertRejects(() => client.get("k"), ConnectionError, "another request tries");
    aborter.abort();
    await locking;
    reply = answer;
    assertEquals(await client.get("k"), undefined);
  }));

Deno.test("the pauses have the bounds that are given", () =>
  withClock(async (advance) => {
    await using peer = new ScriptedPeer(() => ["close"]);
    const bounds = { retryFirstMs: 1_000, retryMaxMs: 3_000 };
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000, ...bounds });
    for (const longestMs of [1_000, 2_000, 3_000, 3_000]) {
      assertEquals(await pauseOf(client), 0);
      const pauseMs = await pauseOf(client);
      assert(pauseMs >= longestMs / 2 && pauseMs <= longestMs, `${pauseMs} ms`);
      advance(pauseMs);
    }
  }));

// --- times and ends --------------------------------------------------------------------------------

Deno.test("a reply's time begins when the connection is ready, not when it is dialled", () =>
  withClock(async (advance) => {
    await using peer = new ScriptedPeer((line) => {
      if (line.startsWith("anna")) advance(10_000);
      return answer(line);
    });
    const limits = { connectMs: 20_000, replyMs: 5_000 };
    await using client = new Client(`127.0.0.1:${peer.port}`, { ...limits, login });
    assertEquals(await client.get("k"), undefined);
  }));

Deno.test("replies that come one after the other are in time, however long all of them take", () =>
  withClock(async (advance) => {
    let answers = 0;
    await using peer = new ScriptedPeer(function* (line): Iterable<string> {
      // Once the time of a reply stands still, the next one is late.
      if (++answers > 20) return;
      advance(4_000);
      yield* answer(line);
    });
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 5_000 });
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
    assertEquals(await client.getMany(keys), new Map());
    await using slow = new Client(`127.0.0.1:${peer.port}`, { replyMs: 50 });
    const sent = assertRejects(
      () => slow.get("k"),
      TimeoutError,
      "no reply within 50 ms (replyMs)",
    );
    await until(() => answers === 21);
    advance(51);
    await sent;
  }));

Deno.test("a lock may be waited for longer than other replies", async () => {
  let grant: (() => void) | undefined;
  const server = createServer((socket) =>
    socket.on("error", () => {}).on("data", (bytes) => {
      const line = `${bytes}`;
      if (line.startsWith("lock ")) grant = () => void socket.write("OK 5\r\n");
      else if (line.startsWith("unlock ")) socket.write("OK\r\n");
    })
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const client = new Client(`127.0.0.1:${port}`, { replyMs: 50, connectMs: 20_000 });
  const locked = client.lock("k", { waitMs: 3_600_000 }).catch((error) => error);
  await until(() => grant !== undefined);
  // Its time has begun later than that of the lock.
  await assertRejects(() => client.get("k"), TimeoutError);
  grant!();
  const section = await locked;
  assertEquals(section.fence, 5);
  await section[Symbol.asyncDispose]();
  await client.close();
  await new Promise((resolve) => server.close(resolve));
});

Deno.test("commands under a lock have their own time, however long the lock was waited for", async () => {
  await using peer = new ScriptedPeer((line) => line.startsWith("mg ") ? [] : answer(line));
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 50 });
  const section = await client.lock("k", { waitMs: 3_600_000 });
  await assertRejects(() => section.get("k"), TimeoutError, "mg k");
  assert(section.signal.aborted);
});

Deno.test("a request whose time-out is noticed late has its time once more, and once only", () =>
  withClock(async (advance) => {
    let asked = 0;
    await using peer = new ScriptedPeer(() => {
      asked++;
      return [];
    });
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20 });
    let isOver = false;
    const sent = assertRejects(() => client.get("k"), TimeoutError).then(() =>
      void (isOver = true)
    );
    await until(() => asked === 1);
    // Each time a timer wakes it is late.
    for (let rounds = 0; !isOver && rounds < 100; rounds++) {
      advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert(isOver, "a busy application gets no time-out");
    await sent;
  }));

Deno.test("a lost lock is no miss, and its release is no error", async () => {
  await using peer = new ScriptedPeer((line) =>
    line.startsWith("unlock ") || line.startsWith("mg lost") ? ["close"] : answer(line)
  );
  const options = { whenDown: "miss", replyMs: 20_000 } as const;
  await using cache = new Cache(`127.0.0.1:${peer.port}`, options);
  assertEquals(await cache.withLock("k", () => 7), 7);
  const failure = new Error("of fn");
  const failing = cache.withLock("k", () => Promise.reject(failure)).catch((error) => error);
  assertEquals(await failing, failure);
  await cache.withLock("k", async (section) => {
    await assertRejects(() => section.get("lost"), ConnectionError);
    await assertRejects(() => section.get("k"), ConnectionError);
  });
  assertEquals(await cache.get("lost"), undefined);
});

Deno.test("a lock that is not given, or is given back, leaves no connection", async () => {
  const replies = ["LOCKED\r\n", "NOT_FOUND\r\n", "SERVER_ERROR busy\r\n", "OK 5\r\n", ""];
  await using peer = new ScriptedPeer((line) =>
    line.startsWith("unlock ") ? ["OK\r\n"] : [replies.shift()!]
  );
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  const gone = (): Promise<void> => until(() => peer.open === 0);
  for (const name of ["LockedError", "TokenOutError", "ServerError"]) {
    assertEquals((await client.lock("k").catch((error) => error)).name, name);
    await gone();
  }
  const section = await client.lock("k");
  await section[Symbol.asyncDispose]();
  assert(!section.signal.aborted);
  await assertRejects(() => section.get("k"), ConnectionError, "the lock was given back");
  await gone();
  const aborter = new AbortController();
  const aborted = assertRejects(() => client.lock("k", aborter), DOMException);
  await until(() => replies.length === 0);
  aborter.abort();
  await aborted;
  await gone();
});

Deno.test("a section refuses keys of other servers: it speaks to that of the lock only", async () => {
  await using one = new ScriptedPeer(answer);
  await using other = new ScriptedPeer(answer);
  const addresses = [one, other].map(({ port }) => `127.0.0.1:${port}`);
  await using cache = new Cache(addresses, { connectMs: 20_000, replyMs: 20_000 });
  const keys = Array.from({ length: 100 }, (_, number) => `k${number}`);
  await cache.withLock("k0", async (section) => {
    for (const key of keys) {
      if (cache.serverNameOf(key) === cache.serverNameOf("k0")) await section.get(key);
      else await assertRejects(() => section.get(key), RangeError, `key ${key}: expected a key of`);
    }
  });
  assertEquals(one.connections + other.connections, 1);
});

Deno.test("close ends the waits of flows", async () => {
  await using peer = new ScriptedPeer(() => ["SERVER_ERROR busy\r\n"]);
  const cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  const putting = assertRejects(
    () => cache.put("k", () => 1, { limitMs: 3_600_000 }),
    UnfinishedError,
    "k",
  );
  await until(() => cache.counters.waits > 5);
  await cache.close();
  await putting;
});

Deno.test("close in each state of a connection settles its requests", async () => {
  await using peer = new ScriptedPeer(() => []);
  const address = `127.0.0.1:${peer.port}`;
  for (const options of [{}, { login }, { tls: {} }]) {
    for (const hasArrived of [false, true]) {
      const before = peer.connections;
      const client = new Client(address, options);
      const all = [client.get("k"), client.set("k", 1), client.lock("k"), client.stats()];
      const settled = Promise.allSettled(all);
      if (hasArrived) await until(() => peer.connections === before + 2);
      await client.close();
      for (const result of await settled) {
        const error = (result as PromiseRejectedResult).reason;
        assert(error instanceof ConnectionError, `${error}`);
        assert(error.message.endsWith("the client was closed"), error.message);
      }
      await client.close();
    }
  }
});

Deno.test("bytes that are taken away before they are sent end the connection", async () => {
  const lines: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    lines.push(line.slice(0, 20));
    return line.startsWith("ms ") ? [`HD ${/O\d+$/.exec(line)![0]}\r\n`] : answer(line);
  });
  const options = { codec: bytesCodec, replyMs: 20_000 };
  await using client = new Client(`127.0.0.1:${peer.port}`, options);
  await client.get("k");
  const bytes = new Uint8Array(10_000);
  const set = client.set("k", bytes);
  structuredClone(bytes, { transfer: [bytes.buffer] });
  await assertRejects(() => set, ConnectionError, "a value has changed its length");
  assertEquals(await client.get("k"), undefined);
  assertEquals(lines, ["mg k v f O1", "mg k v f O1"]);
});
