/**
 * Changes a locked key with npm's memcached, in the text protocol, and npm's memjs, in the binary protocol, of a server
 * with `-o lock_reply=client_error`: locked_npm.ts PORT PREFIX.
 */
import { assertEquals, assertRejects } from "@std/assert";
import memjs from "npm:memjs@1.3.2";
import Memcached from "npm:memcached@2.2.2";
import { Client } from "../support/servers/server_process.ts";

const [port, prefix] = Deno.args as [string, string];
const address = `127.0.0.1:${port}`;
const key = `${prefix}locked`;
using holder = new Client(await Deno.connect({ hostname: "127.0.0.1", port: Number(port) }));
await holder.ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`, "STORED\r\nOK\r\n");

type Done = (error: Error | undefined, result: unknown) => void;

const memcached = new Memcached(address);
const viaMemcached = (start: (done: Done) => void): Promise<unknown> =>
  new Promise((resolve, reject) =>
    start((error, result) => error === undefined ? resolve(result) : reject(error))
  );
await assertRejects(
  () => viaMemcached((done) => memcached.set(key, "2", 10, done)),
  Error,
  "locked",
);
await assertRejects(() => viaMemcached((done) => memcached.incr(key, 1, done)), Error, "locked");
await assertRejects(() => viaMemcached((done) => memcached.del(key, done)), Error, "locked");
assertEquals(await viaMemcached((done) => memcached.get(key, done)), "1");
memcached.end();

const binary = memjs.Client.create(address, { timeout: 10, retries: 0 });
await assertRejects(() => binary.set(key, "2", {}), Error, "Busy");
await assertRejects(() => binary.increment(key, 1, {}), Error, "Busy");
await assertRejects(() => binary.delete(key), Error, "Busy");
assertEquals((await binary.get(key)).value?.toString(), "1");
binary.close();

await holder.ask(`unlock ${key}\r\n`, "OK\r\n");
