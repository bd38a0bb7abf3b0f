// What listeners of a client get: servers that fail and come back, and update tokens that stay out.
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type ClientEvents, Listeners } from "../../../../lib/client/events.ts";
import {
  Cache,
  Client,
  ConnectionError,
  OutcomeUnknownError,
  RolledBackError,
  ServerError,
  TimeoutError,
  UnfinishedError,
} from "../../../../lib/client/mod.ts";
import { Relay } from "../../../support/servers/relay.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";
import { ServerProcess, until } from "../../../support/servers/server_process.ts";
import { startLeased } from "../servers.ts";

const TOKENS = { form: "tokens" } as const;
const PATIENT = { connectMs: 20_000, replyMs: 20_000 } as const;

Deno.test("a listener gets each event once, in a microtask, until it is taken off", async () => {
  const listeners = new Listeners();
  const seen: string[] = [];
  const note = ({ server }: ClientEvents["up"]): void => void seen.push(server);
  listeners.add("up", note);
  listeners.add("up", note);
  listeners.add("up", ({ server }) => seen.push(`${server}'`));
  listeners.add("tokensOut", () => seen.push("another event"));
  listeners.emit("up", { server: "a" });
  assertEquals(seen, []);
  await Promise.resolve();
  assertEquals(seen.splice(0), ["a", "a'"]);
  listeners.emit("up", { server: "b" });
  listeners.remove("up", note);
  await Promise.resolve();
  assertEquals(seen.splice(0), ["b'"]);
  listeners.remove("down", () => {});
  listeners.emit("down", { server: "c", error: new ConnectionError(PLACE, "") });
  await Promise.resolve();
  assertEquals(seen, []);
});

const PLACE = { server: "s", command: "", key: "" };

Deno.test("a listener that throws, rejects or calls the client harms nobody", async () => {
  const unhandled: unknown[] = [];
  const note = (event: PromiseRejectionEvent): void => {
    event.preventDefault();
    unhandled.push(event.reason);
  };
  addEventListener("unhandledrejection", note);
  try {
    await using peer = new ScriptedPeer(() => ["close"]);
    await using client = new Client(`127.0.0.1:${peer.port}`, PATIENT);
    const seen: string[] = [];
    client.on("down", () => {
      throw new Error("broken");
    });
    client.on("down", () => Promise.reject(new Error("broken later")));
    client.on("down", () => ({
      get then() {
        throw new Error("no promise");
      },
    }));
    client.on("down", async () => {
      seen.push(await client.get("k").then(() => "a value", (error) => error.name));
    });
    client.on("down", () => client.close());
    // A connection that is closed without a reply has failed.
    await assertRejects(() => client.get("k"), ConnectionError);
    await until(() => seen.length > 0);
    assertEquals(seen, ["ConnectionError"]);
    // Rejections are reported behind the microtasks.
    await new Promise((resolve) => setTimeout(resolve, 1));
    assertEquals(unhandled, []);
  } finally {
    removeEventListener("unhandledrejection", note);
  }
});

Deno.test("names of events, listeners and servers are checked", async () => {
  await using client = new Client(["h:1", "/run/s"]);
  const wrong = client as unknown as Record<"on" | "off" | "isUp", (...given: unknown[]) => void>;
  for (const name of ["on", "off"] as const) {
    assertThrows(() => wrong[name]("tokenOut", () => {}), RangeError, 'event "tokenOut": expected');
    assertThrows(() => wrong[name](undefined, () => {}), RangeError, "event undefined");
    assertThrows(() => wrong[name]("up", 5), TypeError, "listener 5: expected a function");
  }
  assertEquals([client.isUp(), client.isUp("h:1"), client.isUp("/run/s")], [true, true, true]);
  assertThrows(() => client.isUp("h"), RangeError, 'server "h": expected one of h:1 /run/s');
  assertThrows(() => wrong.isUp(5), TypeError, "server 5: expected a text");
});

/** Notes the events `up` and `down` of a client as words. */
function watch(client: Client): string[] {
  const seen: string[] = [];
  client.on("down", ({ server, error }) => {
    assertEquals(server, error.server);
    seen.push(error.name);
  });
  client.on("up", ({ server }) => {
    assert(server.startsWith("127.0.0.1:"));
    seen.push("up");
  });
  return seen;
}

Deno.test("a server goes down with its first failure, and up when it has executed a request", async () => {
  const now = performance.now;
  let aheadMs = 0;
  performance.now = () => now.call(performance) + aheadMs;
  try {
    let reply: (line: string) => string[] = () => [];
    await using peer = new ScriptedPeer((line) => reply(line), false);
    const address = `127.0.0.1:${peer.port}`;
    await using client = new Client(address, { ...PATIENT, replyMs: 50, connections: 3 });
    const seen = watch(client);
    const answered = (line: string): string[] => [`EN ${/O\d+$/.exec(line)![0]}\r\n`];
    const fail = async (): Promise<void> => {
      aheadMs += 3_600_000;
      const { connections } = peer;
      await assertRejects(() => client.get("k"), ConnectionError);
      await until(() => peer.connections > connections && peer.open === 0);
    };
    // All three connections, then what tries: one failure after the other, one event.
    await Promise.allSettled([1, 2, 3].map(() => client.get("k")));
    await fail();
    reply = () => ["close"];
    await fail();
    await fail();
    assertEquals([seen.splice(0), client.isUp(), client.isUp(address)], [
      ["TimeoutError"],
      false,
      false,
    ]);
    reply = answered;
    aheadMs += 3_600_000;
    assertEquals(await client.get("k"), undefined);
    assertEquals(await client.get("k"), undefined);
    assertEquals([seen.splice(0), client.isUp()], [["up"], true]);
    reply = () => ["HTTP/1.1 400\r\n"];
    await Promise.allSettled([1, 2, 3].map(() => client.get("k")));
    assertEquals([seen.splice(0), client.isUp()], [["ConnectionError"], false]);
    // As a server says that has too many connections: it has not executed the request.
    reply = () => ["SERVER_ERROR busy\r\n"];
    aheadMs += 3_600_000;
    for (let times = 0; times < 4; times++) {
      await assertRejects(() => client.get("k"), ServerError);
    }
    assertEquals([seen.splice(0), client.isUp()], [[], false]);
    reply = answered;
    assertEquals(await client.get("k"), undefined);
    assertEquals(seen.splice(0), ["up"]);
    // `close` is no failure.
    await client.close();
    await Promise.resolve();
    assertEquals([seen, client.isUp(), client.isUp(address)], [[], false, false]);
  } finally {
    performance.now = now;
  }
});

Deno.test("a connection from before a failure serves, and proves nothing of a new one", async () => {
  let lines = 0;
  await using peer = new ScriptedPeer(() => {
    lines++;
    // The first request fails; the second is answered with the third, on the same connection.
    if (lines === 2) return ["close"];
    return lines === 3 ? ["EN O1\r\n", "EN O2\r\n"] : [];
  });
  await using client = new Client(`127.0.0.1:${peer.port}`, {
    ...{ ...PATIENT, connections: 2, retryFirstMs: 3_600_000, retryMaxMs: 3_600_000 },
  });
  const seen = watch(client);
  const waiting = client.get("k");
  await until(() => lines === 1);
  await assertRejects(() => client.get("l"), ConnectionError, "closed");
  const answered = client.get("m");
  assertEquals(await Promise.all([waiting, answered]), [undefined, undefined]);
  assertEquals([seen, client.isUp()], [["ConnectionError"], false]);
  await assertRejects(() => client.get("n"), ConnectionError, "next attempt in");
});

Deno.test("a server that stops is down, the others are not; it is up when it is started again", async () => {
  await using folders = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
  folders.defer(() => Deno.remove(folder, { recursive: true }));
  const names = [`${folder}/a`, `${folder}/b`] as const;
  const start = (path: string): Promise<ServerProcess> =>
    ServerProcess.start({ args: ["-s", path], permissions: ["-A"] });
  const first = await start(names[0]);
  await using _other = await start(names[1]);
  await using client = new Client(names, PATIENT);
  const seen: string[] = [];
  client.on("down", ({ server, error }) => seen.push(`down ${server}`, error.server));
  client.on("up", ({ server }) => seen.push(`up ${server}`));
  const [key, key2] = names.map((name) => {
    for (let number = 0;; number++) {
      if (client.serverNameOf(`k${number}`) === name) return `k${number}`;
    }
  });
  assertEquals([await client.set(key!, 1), await client.set(key2!, 1)], [true, true]);
  assertEquals([client.isUp(), seen], [true, []]);
  await first.stop();
  await until(() => client.get(key!).then(() => false, () => !client.isUp()));
  assertEquals(await client.get(key2!), 1);
  assertEquals(seen, [`down ${names[0]}`, names[0]]);
  assertEquals([client.isUp(names[0]), client.isUp(names[1])], [false, true]);
  await using _again = await start(names[0]);
  await until(() => client.set(key!, 2).catch(() => false));
  assertEquals(seen.slice(2), [`up ${names[0]}`]);
  assertEquals(client.isUp(), true);
});

/** Notes the events `tokensOut` of a cache. */
function watchTokens(cache: Cache): ClientEvents["tokensOut"][] {
  const seen: ClientEvents["tokensOut"][] = [];
  cache.on("tokensOut", (event) => seen.push(event));
  return seen;
}

Deno.test("put tells of the tokens that stay out, before it rejects, and of no others", async () => {
  await using server = await startLeased();
  using relay = new Relay(server.port);
  await using cache = new Cache(`127.0.0.1:${relay.port}`, PATIENT);
  const seen = watchTokens(cache);
  const lost = new Error("lost");
  const fail = (error: Error) => (): never => {
    throw error;
  };
  // Nothing stays out.
  await cache.put("k", () => {}, TOKENS);
  await cache.put("k", fail(new RolledBackError("no")), TOKENS).catch(() => {});
  await cache.put("k", fail(lost), { ...TOKENS, isRolledBack: () => true }).catch(() => {});
  await cache.put("k", fail(lost)).catch(() => {});
  assertEquals([seen, cache.counters.tokensOut], [[], 0]);
  // The outcome is unknown.
  const options = { ...TOKENS, tags: ["t"], limitMs: 30 };
  const unknown = await cache.put(["é", "k"], fail(lost), options)
    .catch((error) => [seen.length, error]) as [number, OutcomeUnknownError];
  assert(unknown[1] instanceof OutcomeUnknownError, `${unknown[1]}`);
  assertEquals(unknown[0], 1);
  assertEquals(seen.splice(0), [{ keys: ["k", "tag:t", "é"], error: unknown[1] }]);
  assertEquals([unknown[1].keys, cache.counters.tokensOut], [["k", "tag:t", "é"], 3]);
  assertEquals(await cache.set("é", 1), false);
  // A `resolve` that fails tells nothing new.
  relay.passage = () => "cut";
  await assertRejects(() => unknown[1].resolve(), UnfinishedError);
  relay.passage = () => "pass";
  await until(() => unknown[1].resolve().then(() => true, () => false));
  assertEquals([seen, cache.counters.tokensOut], [[], 3]);
  assertEquals(await cache.set("é", 1), true);
});

Deno.test("put tells of tokens whose release no server confirms: after the commit, and before it", async () => {
  await using server = await startLeased();
  using relay = new Relay(server.port);
  await using cache = new Cache(`127.0.0.1:${relay.port}`, PATIENT);
  const seen = watchTokens(cache);
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  relay.passage = (bytes) => text(bytes).includes("token release") ? "cut" : "pass";
  const options = { ...TOKENS, limitMs: 30 };
  const committed = await cache.put("k", () => 7, options).catch((error) => error);
  assert(committed instanceof UnfinishedError, `${committed}`);
  assertEquals(seen.splice(0), [{ keys: ["k"], error: committed }]);
  relay.passage = () => "pass";
  await until(() => committed.retry().then(() => true, () => false));
  relay.passage = (bytes) => text(bytes).includes("token release") ? "cut" : "pass";
  const rolledBack = await cache.put("k", () => {
    throw new RolledBackError("no");
  }, options).catch((error) => error);
  assert(rolledBack instanceof UnfinishedError, `${rolledBack}`);
  assertEquals(seen.splice(0), [{ keys: ["k"], error: rolledBack }]);
  relay.passage = () => "pass";
  await until(() => rolledBack.retry().then(() => true, () => false));
  // The second key gets no token, and the first one's cannot be given back.
  relay.passage = (bytes) => /token (?:get m|release)/.test(text(bytes)) ? "cut" : "pass";
  const refused = await cache.put(["k", "m"], () => 7, options).catch((error) => error);
  assert(refused instanceof ConnectionError, `${refused}`);
  assertEquals(seen.splice(0), [{ keys: ["k"], error: refused }]);
  assertEquals(cache.counters.tokensOut, 3);
  relay.passage = () => "pass";
  await until(() => cache.get("k").then(() => true, () => false));
  assertEquals(await cache.set("k", 1), false);
  // Values are invalidated without tokens: no token is out.
  relay.passage = () => "cut";
  await assertRejects(() => cache.put("k", () => 7, { limitMs: 0 }), UnfinishedError);
  assertEquals([seen, cache.counters.tokensOut], [[], 3]);
});

Deno.test("a cache and its namespaces have the same events, with whole keys", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`, { ...PATIENT, prefix: "shop:" });
  const seen: string[] = [];
  const part = cache.namespace("tenant").namespace("é");
  part.on("tokensOut", ({ keys }) => seen.push(...keys));
  cache.on("tokensOut", ({ keys }) => seen.push(...keys));
  const lose = (): never => {
    throw new Error("lost");
  };
  const lost = await part.put("k", lose, TOKENS).catch((error) => error);
  assert(lost instanceof OutcomeUnknownError, `${lost}`);
  assertEquals(seen, new Array(2).fill("shop:tenant/é:k"));
  assertEquals([cache.counters.tokensOut, part.counters.tokensOut], [1, 1]);
  assertEquals([cache.isUp(), part.isUp()], [true, true]);
  await lost.resolve();
});

Deno.test("put tells of no token when the one it could not get is the only one", async () => {
  await using peer = new ScriptedPeer(() => []);
  await using cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 50 });
  const seen = watchTokens(cache);
  const put = cache.put("k", () => {}, { ...TOKENS, limitMs: 0 });
  await assertRejects(() => put, TimeoutError);
  assertEquals([seen, cache.counters.tokensOut], [[], 0]);
});
