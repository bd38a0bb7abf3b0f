import { assert, assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../support/servers/databases.ts";
import { listOf, Setting } from "../../support/servers/origin_setting.ts";
import { type Client, until } from "../../support/servers/server_process.ts";

/** Reads through a cache as its clients do. @returns The value, or undefined for a miss; a miss takes the lease. */
async function read(cache: Client, key: string): Promise<{ value?: string; lease?: string }> {
  await cache.send(`lease-get ${key}\r\n`);
  const reply = await cache.until("END\r\n");
  const value = /^VALUE .*\r\n(.*)\r\n/.exec(reply)?.[1];
  const lease = /^LVALUE \S+ (\d+) /.exec(reply)?.[1];
  return { ...(value !== undefined && { value }), ...(lease !== undefined && { lease }) };
}

async function fill(cache: Client, key: string, lease: string, value: string): Promise<string> {
  await cache.send(`lease-set ${key} ${lease} 0 0 ${value.length}\r\n${value}\r\n`);
  return await cache.until("\r\n");
}

testDatabases(
  "a cache that leaves the list is emptied and stays so; one that comes back has no old value",
  async (database) => {
    await using setting = await Setting.openListed(database, [0, 1]);
    const client = await setting.connect();
    const second = await setting.connect(setting.caches[1]);
    const name = setting.nameOf(1);
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    const { lease } = await read(second, "k");
    await client.ask(`uget @${name} k\r\n`, "VALUE k 0 3 1 C\r\none\r\nEND\r\n");
    assertEquals(await fill(second, "k", lease!, "one"), "STORED\r\n");
    const early = (await read(second, "early")).lease!;

    const left = await setting.reload([0]);
    await second.ask("get k\r\n", "END\r\n");
    assertEquals(await fill(second, "early", early, "old"), "NOT_STORED\r\n");
    assertEquals((await read(second, "k")).lease, "1", "it gives no leases");
    await client.ask(`uget @${name} k\r\n`, "VALUE k 0 3 1 N\r\none\r\nEND\r\n");
    await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");

    const returned = await setting.reload([0, 1]);
    assert(returned > left);
    await second.ask("get k\r\n", "END\r\n");
    const again = (await read(second, "k")).lease!;
    await client.ask(`uget @${name} k\r\n`, "VALUE k 0 3 2 C\r\ntwo\r\nEND\r\n");
    assertEquals(await fill(second, "k", again, "two"), "STORED\r\n");
    await client.ask("set k 0 0 5\r\nthree\r\n", "STORED\r\n");
    await second.ask("get k\r\n", "END\r\n");
    assertEquals(`${(await listOf(client)).caches}`, "2");
  },
);

testDatabases(
  "a cache that cannot be reached leaves with its values, and is emptied before it comes back",
  async (database) => {
    await using setting = await Setting.openListed(database, [0, 1], ["--cache-timeout", "300"]);
    const client = await setting.connect();
    const second = await setting.connect(setting.caches[1]);
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    const { lease } = await read(second, "k");
    await fill(second, "k", lease!, "one");
    setting.caches[1]!.signal("SIGSTOP");
    await setting.reload([0]);
    await setting.origin.line(`${setting.nameOf(1)} has left and could not be emptied: `);
    await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    assertEquals(`${(await listOf(client)).outside}`, "1");

    // It does not join while it cannot be emptied, and writes do not wait for it.
    setting.writeList([0, 1]);
    setting.origin.signal("SIGHUP");
    await setting.origin.line(`${setting.nameOf(1)} cannot join yet`);
    await client.ask("set k 0 0 3\r\nsix\r\n", "STORED\r\n");
    setting.caches[1]!.signal("SIGCONT");
    await until(async () => `${(await listOf(client)).caches}` === "2");
    await until(async () => `${(await listOf(client)).outside}` === "0");
    const fresh = await setting.connect(setting.caches[1]);
    await fresh.ask("get k\r\n", "END\r\n");
  },
);

testDatabases(
  "caches forget takes back a cache that left with its values; one that never joined leaves nothing",
  async (database) => {
    await using setting = await Setting.openListed(database, [0, 1], ["--cache-timeout", "300"]);
    const client = await setting.connect();
    const forget = async (cache: number, reply: string): Promise<void> => {
      await client.ask(`caches forget ${setting.nameOf(cache)}\r\n`, reply);
    };
    await forget(1, "NOT_FOUND\r\n");
    setting.caches[1]!.signal("SIGSTOP");
    await setting.reload([0]);
    await setting.origin.line(`${setting.nameOf(1)} has left and could not be emptied: `);
    assertEquals(`${(await listOf(client)).outside}`, "1");
    await forget(1, "OK\r\n");
    assertEquals(`${(await listOf(client)).outside}`, "0");

    setting.writeList([0, 1]);
    setting.origin.signal("SIGHUP");
    await setting.origin.line(`${setting.nameOf(1)} cannot join yet`);
    await forget(1, "NOT_FOUND\r\n");
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await using next = await setting.startListed([0], ["--take-over"]);
    using later = await next.connect();
    await later.send("caches\r\n");
    assertMatch(await later.until(/END \d+\r\n/), /^CACHE \S+ listed 1\r\nEND \d+\r\n$/);
  },
);

testDatabases(
  "a stand-by with another list takes over: caches of the first that it does not know are emptied",
  async (database) => {
    await using setting = await Setting.openListed(database, [0, 1]);
    const client = await setting.connect();
    const second = await setting.connect(setting.caches[1]);
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    const { lease } = await read(second, "k");
    await fill(second, "k", lease!, "one");
    await using standBy = await setting.startListed([0], ["--take-over"]);
    await second.ask("get k\r\n", "END\r\n");
    const later = await setting.connect(standBy);
    await later.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    await later.send("caches\r\n");
    assertMatch(await later.until(/END \d+\r\n/), /^CACHE \S+ listed 1\r\nEND \d+\r\n$/);
  },
);

testDatabases("a restart empties no cache that stays in the list", async (database) => {
  await using setting = await Setting.openListed(database, [0, 1]);
  const client = await setting.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  const cache = await setting.connect(setting.caches[0]);
  const { lease } = await read(cache, "k");
  await client.ask(`uget @${setting.nameOf(0)} k\r\n`, "VALUE k 0 3 1 C\r\none\r\nEND\r\n");
  assertEquals(await fill(cache, "k", lease!, "one"), "STORED\r\n");
  setting.origin.signal("SIGKILL");
  await setting.origin.ended();
  setting.origin = await setting.startListed([0, 1]);
  const again = await setting.connect();
  await again.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  assertEquals((await read(cache, "k")).value, "one");
});

testDatabases(
  "a file of caches with mistakes changes nothing, and says where they are",
  async (database) => {
    await using setting = await Setting.openListed(database, [0, 1]);
    const client = await setting.connect();
    const path = setting.writeList([0]);
    Deno.writeTextFileSync(path, "\nnowhere\n", { append: true });
    setting.origin.signal("SIGHUP");
    const line = await setting.origin.line("the list of caches stays as it is");
    assert(line.includes('caches.txt line 3: "nowhere": must be <host>:<port>, or'), line);
    await client.send("caches\r\n");
    const caches = await client.until(/END \d+\r\n/);
    assertEquals(caches.match(/^CACHE /gm)?.length, 2);
    await Deno.remove(path);
    setting.origin.signal("SIGHUP");
    await setting.origin.line("No such file");
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  },
);
