import { assert, assertEquals, assertLess, assertMatch } from "@std/assert";
import { Certificates } from "../../support/servers/certificates.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { Setting } from "../../support/servers/proxy_setting.ts";
import { Client, until } from "../../support/servers/server_process.ts";

/** The listener is the same for every database. */
const ONE_DATABASE = ["SQLite"] as const;

testDatabases("clients of the proxy connect with TLS", async (database) => {
  const { certPath, keyPath, cert } = new Certificates(database.folder).make("localhost");
  await using setting = await Setting.open(database, [
    ...["--ssl-chain-cert", certPath, "--ssl-key", keyPath],
  ]);
  const port = setting.proxy.port;
  using client = new Client(
    await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [cert] }),
  );
  await client.ask("set k 5 0 3\r\nabc\r\n", "STORED\r\n");
  await client.ask("get k\r\n", "VALUE k 5 3\r\nabc\r\nEND\r\n");
  await client.send("get nothing\r\nquit\r\n");
  assertEquals(await client.rest(), "END\r\n");
}, ONE_DATABASE);

testDatabases("memcached's commands at the proxy read and write rows", async (database) => {
  await using setting = await Setting.open(database);
  const client = await setting.connect();
  await client.ask("get k\r\n", "END\r\n");
  await client.ask("set k 5 0 3\r\nabc\r\n", "STORED\r\n");
  await client.ask("get k missing\r\n", "VALUE k 5 3\r\nabc\r\nEND\r\n");
  await client.ask("gets k\r\n", "VALUE k 5 3 1\r\nabc\r\nEND\r\n");
  await client.ask("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
  await client.ask("replace nothing 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
  await client.ask("cas k 0 0 1 9\r\nx\r\n", "EXISTS\r\n");
  await client.ask("cas nothing 0 0 1 9\r\nx\r\n", "NOT_FOUND\r\n");
  await client.ask("cas k 0 0 1 1\r\n7\r\n", "STORED\r\n");
  await client.ask("incr k 5\r\n", "12\r\n");
  await client.ask("set b 0 0 3\r\n7  \r\nincr b 1\r\n", "STORED\r\n8\r\n");
  await client.ask("decr k 100\r\n", "0\r\n");
  await client.ask("append k 0 0 1\r\n1\r\n", "STORED\r\n");
  await client.ask("prepend k 0 0 1\r\n2\r\n", "STORED\r\n");
  await client.ask("get k\r\n", "VALUE k 0 3\r\n201\r\nEND\r\n");
  await client.ask("touch k 0\r\n", "TOUCHED\r\n");
  await client.ask("delete k\r\n", "DELETED\r\n");
  await client.ask("delete k\r\n", "NOT_FOUND\r\n");
  await client.ask("incr k 1\r\n", "NOT_FOUND\r\n");
  await client.ask("set k 0 0 1 noreply\r\nx\r\nget k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
  await client.ask("ms m 2 F7 c k\r\nhi\r\n", "HD c1 km\r\n");
  await client.ask("mg m v f c s t Oq\r\n", "VA 2 f7 c1 s2 t-1 Oq\r\nhi\r\n");
  await client.ask(
    "ms m 2 C9\r\nhi\r\nmd m C9\r\nmd m q\r\nmg m v q\r\nmn\r\n",
    "EX\r\nEX\r\nMN\r\n",
  );
  await client.ask("ma n\r\n", "NF\r\n");
  await client.ask("ma n N0 J10 D3 v\r\nma n D3 v k\r\n", "VA 2\r\n10\r\nVA 2 kn\r\n13\r\n");
  await client.ask("ma n MD D20 c\r\nma n C9\r\nma n q\r\nmn\r\n", "HD c3\r\nEX\r\nMN\r\n");
  await client.ask(
    "ma k\r\n",
    "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
  );
  await client.ask(
    "ma n T60\r\n",
    "CLIENT_ERROR rows have no expiry time: exptime must be 0\r\n",
  );
});

testDatabases("a request for many keys is answered in their order", async (database) => {
  await using setting = await Setting.open(database);
  const client = await setting.connect();
  const keys = Array.from({ length: 100 }, (_, number) => `k${number}`);
  const rows = keys.filter((_, number) => number % 3 > 0);
  const sets = rows.map((key) => `set ${key} 0 0 ${key.length} noreply\r\n${key}\r\n`);
  await client.ask(`${sets.join("")}mn\r\n`, "MN\r\n");
  const reply = (line: (key: string) => string): string =>
    `${
      rows.map((key) => `VALUE ${key} 0 ${key.length}${line(key)}\r\n${key}\r\n`).join("")
    }END\r\n`;
  const all = keys.join(" ");
  for (let time = 0; time < 2; time++) await client.ask(`get ${all}\r\n`, reply(() => ""));
  await client.ask(`gets ${all}\r\n`, reply(() => " 1"));
  await client.ask(`uget ${rows.join(" ")}\r\n`, reply(() => " 1 C"));
});

testDatabases(
  "a value read through the proxy is in its cache, and gone before a write is committed",
  async (database) => {
    await using setting = await Setting.open(database);
    const client = await setting.connect();
    const caches = await Promise.all(setting.caches.map((cache) => setting.connect(cache)));
    const inCaches = async (key: string): Promise<string[]> => {
      const found = [];
      for (const cache of caches) {
        await cache.send(`get ${key}\r\n`);
        const reply = await cache.until("END\r\n");
        if (reply !== "END\r\n") found.push(reply.split("\r\n")[1]!);
      }
      return found;
    };
    for (let key = 0; key < 20; key++) {
      await client.ask(`set k${key} 0 0 3\r\none\r\n`, "STORED\r\n");
      await client.ask(`get k${key}\r\n`, `VALUE k${key} 0 3\r\none\r\nEND\r\n`);
      assertEquals(await inCaches(`k${key}`), ["one"], "each key has one cache");
      await client.ask(`set k${key} 0 0 3\r\ntwo\r\n`, "STORED\r\n");
      assertEquals(await inCaches(`k${key}`), []);
    }
    await client.ask("token get k1 writer:1\r\n", "TOKEN ");
    await client.until("\r\n");
    await client.ask("get k1\r\n", "VALUE k1 0 3\r\ntwo\r\nEND\r\n");
    assertEquals(await inCaches("k1"), [], "nothing is filled while a token is out");
  },
);

for (const cacheArgs of [[], ["-z", "3333"], ["--strict", "*"]]) {
  testDatabases(
    `the first read after a write fills the cache, caches with ${
      cacheArgs.join(" ") || "defaults"
    }`,
    async (database) => {
      await using setting = await Setting.open(database, [], cacheArgs);
      const client = await setting.connect();
      const caches = await Promise.all(setting.caches.map((cache) => setting.connect(cache)));
      for (let value = 10; value < 20; value++) {
        // A reader that never fills.
        for (const cache of caches) {
          await cache.send("lease-get k\r\n");
          await cache.until("END\r\n");
        }
        await client.ask(`set k 0 0 2\r\n${value}\r\n`, "STORED\r\n");
        await client.ask("get k\r\n", `VALUE k 0 2\r\n${value}\r\nEND\r\n`);
        assertEquals(await client.stat("cache_fills"), `${value - 9}`);
      }
    },
  );
}

testDatabases(
  "update tokens at the proxy: owners, revocation, retries, lists",
  async (database) => {
    await using setting = await Setting.open(database);
    const client = await setting.connect();
    const take = async (key: string, owner = ""): Promise<string> => {
      await client.send(`token get ${key} ${owner}\r\n`);
      return (await client.until("\r\n")).split(" ")[1]!.trim();
    };
    const id = await take("k", "me");
    assertEquals(await take("k", "me"), id);
    await client.ask("uget k\r\n", "NONE k 0 N\r\nEND\r\n");
    await client.ask("token list\r\n", `TOKEN k ${id} idle me\r\nEND\r\n`);
    await client.ask(`uput k 3 2 ${id}\r\nhi\r\n`, "STORED 1\r\n");
    await client.ask(`uput k 3 2 ${id}\r\nhi\r\n`, "STORED 1\r\n");
    await client.ask("uget k\r\n", "VALUE k 3 2 1 C\r\nhi\r\nEND\r\n");
    await client.ask("uget @127.0.0.1:1 k\r\n", "VALUE k 3 2 1 N\r\nhi\r\nEND\r\n");
    const revoked = await take("k");
    await client.ask(`token revoke k ${revoked}\r\n`, "OK 1\r\n");
    await client.ask(`uput k 0 1 ${revoked}\r\nx\r\n`, "REVOKED\r\n");
    await client.ask("uput k 0 1 12345\r\nx\r\n", "NOT_FOUND\r\n");
    const released = await take("k");
    await client.ask(`token release k ${released}\r\n`, "OK\r\n");
    await client.ask(`token release k ${released}\r\n`, "NOT_FOUND\r\n");
    const deleting = await take("k");
    await client.ask(`udelete k ${deleting}\r\n`, "DELETED 2\r\n");
    await client.ask("uget k\r\n", "NONE k 2 C\r\nEND\r\n");
    await client.ask(`token resolve k ${deleting}\r\n`, "STORED 2\r\n");
    await client.ask("token get k spaced out\r\n", "CLIENT_ERROR bad command line format\r\n");
    await client.ask("token nonsense k\r\n", "ERROR\r\n");
  },
);

testDatabases(
  "a cache that does not answer makes writes fail, not reads",
  async (database) => {
    await using setting = await Setting.open(database, ["--cache-timeout", "300"]);
    const client = await setting.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    const [first] = setting.caches;
    first!.signal("SIGSTOP");
    await until(() => /^\d+ \(.*\) T/.test(Deno.readTextFileSync(`/proc/${first!.pid}/stat`)));
    await client.send("set k 0 0 3\r\ntwo\r\n");
    const refusal = await client.until("\r\n");
    assertMatch(
      refusal,
      new RegExp(`^SERVER_ERROR 127.0.0.1:${first!.port}: no reply within 300 ms`),
    );
    await client.ask("gets k\r\n", "VALUE k 0 3 1\r\none\r\nEND\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
    await client.ask("token list\r\n", "END\r\n");
    first!.signal("SIGCONT");
    await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
  },
);

testDatabases("a proxy that is deposed ends, status 69", async (database) => {
  await using setting = await Setting.open(database);
  const old = await setting.connect();
  await old.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await using second = await setting.startProxy();
  // Without a request.
  const { code, stderr } = await setting.proxy.ended();
  assertEquals(code, 69, stderr);
  assertEquals(
    / error: (another .*)$/m.exec(stderr)?.[1],
    "another proxy has taken over: epoch 2 replaced epoch 1; this one ends",
  );
  assertEquals(await old.rest(), "");
  const client = await setting.connect(second);
  await client.ask("uget k\r\n", "VALUE k 0 3 1 C\r\none\r\nEND\r\n");
  await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
});

testDatabases(
  "a token that was used before a restart gives the same answer after it",
  async (database) => {
    await using setting = await Setting.open(database);
    const client = await setting.connect();
    await client.send("token get k\r\n");
    const id = (await client.until("\r\n")).split(" ")[1]!.trim();
    await client.ask(`uput k 0 3 ${id}\r\none\r\n`, "STORED 1\r\n");
    setting.proxy.signal("SIGKILL");
    await setting.proxy.ended();
    setting.proxy = await setting.startProxy();
    const again = await setting.connect();
    await again.ask(`uput k 0 3 ${id}\r\none\r\n`, "STORED 1\r\n");
    await again.ask("gets k\r\n", "VALUE k 0 3 1\r\none\r\nEND\r\n");
  },
);

testDatabases("malformed requests get an error on an open connection", async (database) => {
  await using setting = await Setting.open(database, ["-I", "1000"]);
  const client = await setting.connect();
  const error = async (request: string, reply: string): Promise<void> => {
    await client.ask(request, `${reply}\r\n`);
  };
  await error("bogus\r\n", "ERROR");
  await error("\r\n", "ERROR");
  await error("get\r\n", "ERROR");
  await error(`get ${"k".repeat(251)}\r\n`, "CLIENT_ERROR bad command line format");
  await error("set k 0 0 abc\r\n", "CLIENT_ERROR bad command line format");
  await error("set k -1 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format");
  await error("set k 0 60 1\r\nx\r\n", "CLIENT_ERROR rows have no expiry time: exptime must be 0");
  await error("set k 0 0 1\r\nxyz", "CLIENT_ERROR bad data chunk");
  await error(
    `set k 0 0 1001\r\n${"x".repeat(1001)}\r\n`,
    "SERVER_ERROR object too large for cache",
  );
  await client.ask(`set k 0 0 1000\r\n${"x".repeat(1000)}\r\n`, "STORED\r\n");
  await error("append k 0 0 1\r\nx\r\n", "SERVER_ERROR object too large for cache");
  await error("incr k 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value");
  await error("incr k x\r\n", "CLIENT_ERROR invalid numeric delta argument");
  await error("mg k N30\r\n", "CLIENT_ERROR flag N means nothing for rows");
  await error("uput k 0 1 nine\r\nx\r\n", "CLIENT_ERROR bad command line format");
  await client.ask("quit\r\n", "");
  assertEquals(await client.rest(), "");
  const long = await setting.connect();
  await long.send("x".repeat(70_000));
  assertEquals(await long.rest(), "CLIENT_ERROR line too long\r\n");
});

testDatabases("replies do not wait for a data block that has not arrived", async (database) => {
  await using setting = await Setting.open(database);
  const client = await setting.connect();
  await client.ask("set k 0 0 3\r\none\r\nset k 0 0 3\r\ntw", "STORED\r\n");
  await client.ask("o\r\nset k 0 0 3\r\n", "STORED\r\n");
  // Nothing is in progress: the connection ends without a drain.
  const ended = setting.proxy.stop();
  assertEquals(await client.rest(), "");
  assertEquals((await ended).code, 0);
});

testDatabases("replies do not wait for the requests behind them", async (database) => {
  await using setting = await Setting.open(database);
  const writer = await setting.connect();
  const reader = await setting.connect();
  const COUNT = 200;
  const pairs = Array.from(
    { length: COUNT },
    (_, index) => `set k 0 0 3\r\n${100 + index}\r\nget k\r\n`,
  );
  await writer.send(pairs.join(""));
  await writer.until("END\r\n");
  await reader.send("gets k\r\n");
  const [, version] = /^VALUE k 0 3 (\d+)\r\n/.exec(await reader.until("END\r\n"))!;
  assertLess(Number(version), COUNT);
});

testDatabases("SIGTERM answers the request in progress, and ends", async (database) => {
  await using setting = await Setting.open(database);
  const client = await setting.connect();
  const idle = await setting.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  const ended = await setting.proxy.stop();
  assertEquals(ended.code, 0);
  assertEquals(await idle.rest(), "");
  // The folder of a proxy before PostgreSQL is none.
  const { folder } = database;
  const left = folder === "" ? [] : await Array.fromAsync(Deno.readDir(folder));
  assert(!left.some(({ name }) => name.includes("journal")));
});
