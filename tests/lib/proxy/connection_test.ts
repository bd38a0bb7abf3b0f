import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { ListKeeper } from "../../../lib/proxy/caches/list_keeper.ts";
import { ProxyConnection } from "../../../lib/proxy/connection.ts";
import { Proxy } from "../../../lib/proxy/proxy.ts";
import { SqliteBackend } from "../../../lib/proxy/sqlite.ts";
import { TokenStates } from "../../../lib/proxy/token_states.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

const VALUE = "v".repeat(100_000);
const KEYS = 100;

/** A proxy before an empty database, without caches. */
async function openProxy(tokensMax: number): Promise<Proxy & AsyncDisposable> {
  const backend = new SqliteBackend(":memory:");
  const states = new TokenStates(await backend.takeOver(), tokensMax, 1);
  const { list } = new ListKeeper("ketama", 1000, null);
  const proxy = new Proxy(backend, list, states, 1 << 20, () => Promise.resolve());
  return Object.assign(proxy, { [Symbol.asyncDispose]: () => backend.close() });
}

/** A peer that sends these requests, and then closes. Returns the pieces that it is sent. */
async function serve(requests: string, tokensMax = 1): Promise<string[]> {
  await using proxy = await openProxy(tokensMax);
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
    const pieces = await serve(`${store}${command}${" k".repeat(KEYS)}\r\n`);
    const values = pieces.join("").split(VALUE).length - 1;
    assertEquals(values, KEYS);
    for (const { length } of pieces) assertLess(length, 2 * VALUE.length);
  });
}

Deno.test("a list of many tokens is sent piece by piece", async () => {
  const TOKENS = 10_000;
  const pieces = await serve("token get k\r\n".repeat(TOKENS) + "token list\r\n", TOKENS);
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
