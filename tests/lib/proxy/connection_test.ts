import type { CacheClient } from "../../../lib/proxy/cache_client.ts";
import { assertEquals, assertLess, assertRejects } from "@std/assert";
import type { Backend } from "../../../lib/rows/databases/backend.ts";
import { ListKeeper } from "../../../lib/rows/caches/list_keeper.ts";
import { ProxyConnection } from "../../../lib/proxy/connection.ts";
import { Proxy } from "../../../lib/proxy/proxy.ts";
import { SqliteBackend } from "../../../lib/rows/databases/sqlite.ts";
import { TokenStates } from "../../../lib/rows/flows/token_states.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

/** The list has no caches. */
function unreachable(): CacheClient {
  throw new Error("there is none");
}

const VALUE = "v".repeat(100_000);
const KEYS = 100;

/** A proxy without caches. */
async function openProxy(
  tokensMax: number,
  backend: Backend = new SqliteBackend(":memory:"),
): Promise<Proxy & AsyncDisposable> {
  const states = new TokenStates(await backend.takeOver(), tokensMax, 1);
  const { list } = new ListKeeper("ketama", unreachable, () => {});
  const proxy = new Proxy(backend, list, states, 1 << 20, () => Promise.resolve());
  return Object.assign(proxy, { [Symbol.asyncDispose]: () => backend.close() });
}

/** A peer that sends these requests, and then closes. Returns the pieces that it is sent. */
async function serve(proxy: Proxy, requests: string): Promise<string[]> {
  let rest = bytesOf(requests);
  const pieces: string[] = [];
  const connection = new ProxyConnection(proxy, "1", {
    read: (buffer) => {
      const piece = rest.subarray(0, buffer.length);
      rest = rest.subarray(piece.length);
      buffer.set(piece);
      return Promise.resolve(piece.length || null);
    },
    write: (bytes) => {
      pieces.push(textOf(bytes));
      return Promise.resolve(bytes.length);
    },
  });
  await connection.serve();
  return pieces;
}

for (const command of ["get", "gets", "uget"]) {
  Deno.test(`${command}: the values of many keys are sent while others are read`, async () => {
    const store = `set k 0 0 ${VALUE.length}\r\n${VALUE}\r\n`;
    await using proxy = await openProxy(1);
    const pieces = await serve(proxy, `${store}${command}${" k".repeat(KEYS)}\r\n`);
    const values = pieces.join("").split(VALUE).length - 1;
    assertEquals(values, KEYS);
    for (const { length } of pieces) assertLess(length, 2 * VALUE.length);
  });
}

Deno.test("a list of many tokens is sent piece by piece", async () => {
  const TOKENS = 10_000;
  await using proxy = await openProxy(TOKENS);
  const pieces = await serve(proxy, "token get k\r\n".repeat(TOKENS) + "token list\r\n");
  assertEquals(pieces.join("").match(/^TOKEN k \d+ idle -\r$/gm)?.length, TOKENS);
  for (const { length } of pieces) assertLess(length, 2 * VALUE.length);
});

Deno.test("of a peer that accepts no byte, no further request is read", async () => {
  await using proxy = await openProxy(1);
  const requests = bytesOf("stats\r\n".repeat(1000));
  let readings = 0;
  let nowMs = 7;
  const sending = Promise.withResolvers<void>();
  const accept = Promise.withResolvers<number>();
  const stream = {
    read: (buffer: Uint8Array): Promise<number | null> => {
      readings++;
      buffer.set(requests);
      return Promise.resolve(requests.length);
    },
    write: (): Promise<number> => {
      nowMs++;
      sending.resolve();
      return accept.promise;
    },
  };
  const connection = new ProxyConnection(proxy, "1", stream, null, () => nowMs);
  assertEquals(connection.sendingSinceMs, null);
  const served = connection.serve();
  await sending.promise;
  assertEquals([connection.sendingSinceMs, connection.receivingSinceMs], [7, null]);
  accept.reject(new Error("closed"));
  await assertRejects(() => served, Error, "closed");
  assertEquals(readings, 1);
});

Deno.test("a connection knows since when it waits for its peer", async () => {
  await using proxy = await openProxy(1);
  const reading = Promise.withResolvers<void>();
  const received = Promise.withResolvers<number | null>();
  const stream = {
    read: (): Promise<number | null> => {
      reading.resolve();
      return received.promise;
    },
    write: (bytes: Uint8Array): Promise<number> => Promise.resolve(bytes.length),
  };
  const login = (): Promise<Access> => Promise.resolve(Access.NONE);
  const connection = new ProxyConnection(proxy, "1", stream, login, () => 7);
  const served = connection.serve();
  await reading.promise;
  const { sendingSinceMs, receivingSinceMs, unauthenticatedSinceMs } = connection;
  assertEquals([sendingSinceMs, receivingSinceMs, unauthenticatedSinceMs], [null, 7, 7]);
  received.resolve(null);
  await served;
  assertEquals(connection.receivingSinceMs, null);
});

const DEPOSED = "SERVER_ERROR another proxy has taken over: epoch 2 replaced epoch 1\r\n";

testDatabases(
  "a proxy that reads of its successor calls nothing cacheable, and refuses what follows",
  async (database) => {
    await using old = await openProxy(10, await database.open());
    const ask = async (proxy: Proxy, request: string): Promise<string> =>
      (await serve(proxy, request)).join("");
    const first = await ask(old, "set k 0 0 3\r\none\r\ntoken get k\r\n");
    const [, early] = /^STORED\r\nTOKEN (\d+)\r\n$/.exec(first)!;
    assertEquals(await ask(old, "uget other\r\n"), "NONE other 0 C\r\nEND\r\n");
    await using next = await openProxy(10, await database.open());
    assertEquals(
      await ask(old, `uget other\r\nuput k 0 1 ${early}\r\nx\r\nget k\r\nstats\r\n`),
      `NONE other 0 N\r\nEND\r\n${DEPOSED.repeat(3)}`,
    );
    assertEquals(await ask(next, `uput k 0 1 ${early}\r\nx\r\n`), "NOT_FOUND\r\n");
    assertEquals(await ask(next, "uget k\r\n"), "VALUE k 0 3 1 C\r\none\r\nEND\r\n");
  },
);

testDatabases("a proxy that learns of its successor in a write is deposed", async (database) => {
  await using old = await openProxy(1, await database.open());
  await using _next = await openProxy(1, await database.open());
  assertEquals(await serve(old, "set k 0 0 1\r\nx\r\n"), [DEPOSED]);
  await old.deposed;
});

testDatabases("an idle proxy that checks its epoch learns of its successor", async (database) => {
  await using old = await openProxy(1, await database.open());
  await old.checkEpoch();
  assertEquals(old.isDeposed, false);
  await using _next = await openProxy(1, await database.open());
  await old.checkEpoch();
  assertEquals(old.isDeposed, true);
  await old.deposed;
  assertEquals(`SERVER_ERROR ${old.deposedText}\r\n`, DEPOSED);
});
