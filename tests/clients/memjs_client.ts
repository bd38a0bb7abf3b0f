/**
 * Drives a server with npm's memjs, in the binary protocol, as an application would:
 * memjs_client.ts PORT PREFIX [alone].
 */
import { Buffer } from "node:buffer";
import { assertEquals } from "@std/assert";
import memjs from "npm:memjs@1.3.2";

if (import.meta.main) {
  const [port, prefix, alone] = Deno.args as [string, string, string?];
  const client = memjs.Client.create(`127.0.0.1:${port}`, { timeout: 10, retries: 1 });
  await work(client, (name) => prefix + name);
  if (alone !== undefined) await workAlone(client, prefix);
  client.close();
}

type Client = ReturnType<typeof memjs.Client.create>;

async function text(client: Client, key: string): Promise<string | null> {
  const { value } = await client.get(key);
  return value === null ? null : value.toString("latin1");
}

async function work(client: Client, key: (name: string) => string): Promise<void> {
  const a = key("a");
  assertEquals(await text(client, key("absent")), null);
  assertEquals(await client.set(a, "one", {}), true);
  assertEquals(await text(client, a), "one");
  assertEquals(await client.add(a, "two", {}), false);
  assertEquals(await client.replace(a, "three", { expires: 100 }), true);
  assertEquals(await client.replace(key("absent"), "x", {}), false);
  assertEquals(await client.append(a, "x"), true);
  // Its prepend sends the opcode of append.
  assertEquals(await text(client, a), "threex");
  assertEquals((await client.increment(key("n"), 3, { initial: 10 })).value, 10);
  assertEquals((await client.increment(key("n"), 3, {})).value, 13);
  assertEquals((await client.decrement(key("n"), 20, {})).value, 0);
  assertEquals(await client.touch(a, 100), true);
  assertEquals(await client.touch(key("absent"), 100), false);
  const names = Array.from({ length: 300 }, (_, number) => key(`many ${number} é`));
  await Promise.all(names.map((name, number) => client.set(name, "v".repeat(number * 37), {})));
  const values = await Promise.all(names.map((name) => text(client, name)));
  assertEquals(values, names.map((_, number) => "v".repeat(number * 37)));
  const large = "\0\xff\r\n".repeat(250_000);
  assertEquals(await client.set(key("large"), Buffer.from(large, "latin1"), {}), true);
  assertEquals(await text(client, key("large")) === large, true);
  assertEquals(await client.delete(a), true);
  assertEquals(await client.delete(a), false);
  await Promise.all(names.map((name) => client.delete(name)));
}

async function workAlone(client: Client, prefix: string): Promise<void> {
  await client.flush();
  assertEquals(await text(client, `${prefix}large`), null);
  await client.set(`${prefix}new`, "1", {});
  const stats = await new Promise<Record<string, string>>((resolve, reject) =>
    client.stats((error: Error | null, _server: string, found: Record<string, string> | null) =>
      error === null ? resolve(found!) : reject(error)
    )
  );
  assertEquals(Number(stats["curr_items"]) > 0, true);
}
