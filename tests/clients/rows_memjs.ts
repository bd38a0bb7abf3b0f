/**
 * Writes and reads rows through the update-token origin with npm's memjs: rows_memjs.ts PORT[,PORT] PREFIX. With two
 * ports, each call goes to another server than the one before.
 */
import { assertEquals } from "@std/assert";
import memjs from "npm:memjs@1.3.2";

const [ports, prefix] = Deno.args as [string, string];
const clients = ports.split(",").map((port) =>
  memjs.Client.create(`127.0.0.1:${port}`, { timeout: 10, retries: 1 })
);
let turn = 0;
/** The client of the next server. */
const client = (): (typeof clients)[number] => clients[++turn % clients.length]!;
const key = (name: string): string => prefix + name;
const text = async (name: string): Promise<string | null> => {
  const { value } = await client().get(key(name));
  return value === null ? null : value.toString("latin1");
};

assertEquals(await text("absent"), null);
assertEquals(await client().set(key("a"), "one", {}), true);
assertEquals(await text("a"), "one");
assertEquals(await client().add(key("a"), "two", {}), false);
assertEquals(await client().replace(key("a"), "three", {}), true);
assertEquals(await client().replace(key("absent"), "x", {}), false);
assertEquals(await client().append(key("a"), "x"), true);
assertEquals(await text("a"), "threex");
assertEquals((await client().increment(key("n"), 3, { initial: 10 })).value, 10);
assertEquals((await client().increment(key("n"), 3, {})).value, 13);
assertEquals((await client().decrement(key("n"), 20, {})).value, 0);
const names = Array.from({ length: 50 }, (_, number) => `many-${number}`);
await Promise.all(
  names.map((name, number) => client().set(key(name), "v".repeat(number * 37), {})),
);
assertEquals(
  await Promise.all(names.map(text)),
  names.map((_, number) => "v".repeat(number * 37)),
);
assertEquals(await client().delete(key("a")), true);
assertEquals(await client().delete(key("a")), false);
assertEquals(await client().set(key("a"), "last", {}), true);
for (const each of clients) each.close();
