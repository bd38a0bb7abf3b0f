import { assertEquals, assertLess } from "@std/assert";
import { ListKeeper } from "../../../lib/proxy/caches/list_keeper.ts";
import { ProxyConnection } from "../../../lib/proxy/connection.ts";
import { Proxy } from "../../../lib/proxy/proxy.ts";
import { SqliteBackend } from "../../../lib/proxy/sqlite.ts";
import { TokenStates } from "../../../lib/proxy/token_states.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

const VALUE = "v".repeat(100_000);
const KEYS = 100;

/** A peer that sends these requests, and then closes. Returns the pieces that it is sent. */
async function serve(requests: string): Promise<string[]> {
  const backend = new SqliteBackend(":memory:");
  const states = new TokenStates(await backend.takeOver(), 1, 1);
  const { list } = new ListKeeper("ketama", 1000, null);
  const proxy = new Proxy(backend, list, states, 1 << 20, () => Promise.resolve());
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
  await backend.close();
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
