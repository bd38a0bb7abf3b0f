// Servers that fall silent, and applications that are busy: what a connection notices, and when.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { linkOf } from "../../../../lib/client/net/address.ts";
import { Connection } from "../../../../lib/client/net/connection.ts";
import {
  Cache,
  Client,
  ConnectionError,
  ServerError,
  TimeoutError,
} from "../../../../lib/client/mod.ts";
import * as requests from "../../../../lib/client/requests.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";
import { until } from "../../../support/servers/server_process.ts";
import { startLeased } from "../servers.ts";

Deno.test("a lock's signal aborts when its server falls silent", async () => {
  let isSilent = false;
  let probes = 0;
  await using peer = new ScriptedPeer((line) => {
    if (line === "version") probes++;
    if (isSilent) return [];
    return [
      line === "version" ? "VERSION 1\r\n" : line.startsWith("lock ") ? "OK 5\r\n" : "OK\r\n",
    ];
  }, false);
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 1_000 });
  await using section = await client.lock("k");
  await until(() => probes > 1);
  assert(!section.signal.aborted);
  isSilent = true;
  await until(() => section.signal.aborted);
  assert(section.signal.reason instanceof ConnectionError);
  // None is asked any more.
  await until(() => peer.open === 0);
});

Deno.test("a lock that is lost as soon as it is given is asked about no more", async () => {
  // Bytes that nobody has asked for end the connection, in the same piece as the reply.
  await using peer = new ScriptedPeer(() => ["OK 5\r\nrest\r\n"]);
  await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  const section = await client.lock("k");
  assert(section.signal.aborted);
  await section[Symbol.asyncDispose]();
});

Deno.test("the reply behind that of a lock has its own time", async () => {
  await using peer = new ScriptedPeer((line) => line.startsWith("lock ") ? ["OK 5\r\n"] : []);
  const connection = new Connection(
    { host: "127.0.0.1", port: peer.port },
    linkOf({ replyMs: 50, connectMs: 20_000 }),
    { serves: () => {}, ended: () => {} },
  );
  const locking = connection.send(requests.lock("k", 3_600_000));
  const behind = assertRejects(() => connection.send(requests.unlock("k")), TimeoutError);
  await locking;
  await behind;
  await connection.close();
});

Deno.test("replies that arrive while the application is busy are in time", async () => {
  await using server = await startLeased();
  await using client = new Client(`127.0.0.1:${server.port}`, { replyMs: 100 });
  await until(() => client.set("k", 1).catch(() => false));
  for (let round = 0; round < 5; round++) {
    const busy = new Promise<void>((resolve) =>
      setTimeout(() => {
        for (const end = performance.now() + 200; performance.now() < end;);
        resolve();
      })
    );
    assertEquals(await client.get("k"), 1);
    await busy;
  }
});

/** Callers of one key, and a server that was down and falls silent. @param isAsked It has answered with an error. */
async function callersOfOneKey(isAsked: boolean): Promise<void> {
  let reply: () => string[] = () => ["close"];
  await using peer = new ScriptedPeer(() => reply());
  await using cache = new Cache<string>(`127.0.0.1:${peer.port}`, {
    ...{ whenDown: "miss", replyMs: 20_000, retryFirstMs: 1, retryMaxMs: 1 },
  });
  let loads = 0;
  const read = (): Promise<string | undefined> =>
    cache.getOrLoad("k", () => {
      loads++;
      return "row";
    });
  assertEquals(await read(), "row");
  await until(() => !cache.isUp());
  await new Promise((resolve) => setTimeout(resolve, 5));
  if (isAsked) {
    reply = () => ["SERVER_ERROR busy\r\n"];
    await assertRejects(() => cache.get("k"), ServerError);
  }
  reply = () => [];
  const [first, ...others] = Array.from({ length: 10 }, read);
  let isAnswered = false;
  const answered = first!.then(() => isAnswered = true);
  assertEquals(await Promise.all(others), new Array(9).fill("row"));
  assertEquals(await Promise.all([read(), read()]), ["row", "row"]);
  assertEquals([isAnswered, loads], [false, 3]);
  await cache.close();
  await answered;
}

Deno.test("of the callers of one key, one waits for a server that is tried again", async () => {
  await callersOfOneKey(false);
  // On the connection that has got an error.
  await callersOfOneKey(true);
});

/** A server that can be silent, and the commands that it gets. */
class SilentPeer implements AsyncDisposable {
  isSilent = true;
  readonly asked: string[] = [];
  readonly #peer = new ScriptedPeer((line) => {
    this.asked.push(line.split(" ")[0]!);
    if (this.isSilent) return [];
    if (line.startsWith("mg ")) return [`EN ${/O\d+$/.exec(line)![0]}\r\n`];
    return [
      line === "version" ? "VERSION 1\r\n" : line.startsWith("lock ") ? "OK 5\r\n" : "OK\r\n",
    ];
  }, false);

  get port(): number {
    return this.#peer.port;
  }

  get open(): number {
    return this.#peer.open;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#peer[Symbol.asyncDispose]();
  }
}

Deno.test("a server that was silent is asked aside: no request waits for its time-out", async () => {
  await using peer = new SilentPeer();
  await using client = new Client(`127.0.0.1:${peer.port}`, {
    ...{ connections: 3, replyMs: 200, retryFirstMs: 1, retryMaxMs: 1 },
  });
  await assertRejects(() => client.get("k"), TimeoutError);
  peer.asked.length = 0;
  const failures = async (): Promise<unknown[]> => {
    const ends = [...Array.from({ length: 5 }, () => client.get("k")), client.lock("k")];
    return (await Promise.allSettled(ends)).map((end) => (end as PromiseRejectedResult).reason);
  };
  // Until it has been asked twice.
  await until(async () => {
    for (const error of await failures()) {
      assert(error instanceof ConnectionError && !(error instanceof TimeoutError), `${error}`);
    }
    return peer.asked.length >= 2;
  });
  assertEquals(peer.asked.slice(0, 2), ["version", "version"]);
  assert(peer.open <= 1);
  peer.isSilent = false;
  await until(() => client.get("k").then(() => true, () => false));
  assert(client.isUp());
});

Deno.test("the first request is served that a server gets which was silent", async () => {
  const { now } = performance;
  let aheadMs = 0;
  performance.now = () => now.call(performance) + aheadMs;
  try {
    for (const command of ["get", "lock"] as const) {
      await using peer = new SilentPeer();
      // So long a pause passes when the clock is moved only, and bounds how long a request waits for the question.
      await using client = new Client(`127.0.0.1:${peer.port}`, {
        ...{ replyMs: 50, retryFirstMs: 20_000, retryMaxMs: 20_000 },
      });
      await assertRejects(() => client.get("k"), TimeoutError);
      await assertRejects(() => client[command]("k"), ConnectionError, "next attempt in");
      aheadMs += 3_600_000;
      peer.isSilent = false;
      peer.asked.length = 0;
      if (command === "get") assertEquals(await client.get("k"), undefined);
      else await (await client.lock("k"))[Symbol.asyncDispose]();
      assertEquals(peer.asked.slice(0, 2), ["version", command === "get" ? "mg" : "lock"]);
    }
  } finally {
    performance.now = now;
  }
});
