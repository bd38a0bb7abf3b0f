import { assert, assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../support/servers/databases.ts";
import { startOrigin } from "../../support/servers/origin_process.ts";

testDatabases("memcached's commands read and write rows", async (database) => {
  await using origin = await startOrigin(database);
  using client = await origin.connect();
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
    "touch n 60\r\n",
    "CLIENT_ERROR rows have no expiry time; see --row-expiry\r\n",
  );
});

testDatabases(
  "update tokens: owners, revocation, retries, lists",
  async (database) => {
    await using origin = await startOrigin(database);
    using client = await origin.connect();
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
    await client.ask("uread k\r\n", "VALUE k 3 2 1 C\r\nhi\r\nEND\r\n");
    const gone = /^CLIENT_ERROR caches is gone: .*nodes lists its nodes$/;
    await client.send("caches\r\n");
    assertMatch((await client.until("\r\n")).trim(), gone);
    await client.ask("nodes\r\n", "END\r\n");
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

testDatabases("a server that is deposed ends, status 69", async (database) => {
  await using origin = await startOrigin(database);
  using old = await origin.connect();
  await old.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await using second = await startOrigin(database, ["--take-over"]);
  // Without a request.
  const { code, stderr } = await origin.ended();
  assertEquals(code, 69, stderr);
  assertEquals(
    /another server has taken the database over: epoch 2 replaced epoch 1/.test(stderr),
    true,
    stderr,
  );
  assertEquals(await old.rest(), "");
  using client = await second.connect();
  await client.ask("uget k\r\n", "VALUE k 0 3 1 C\r\none\r\nEND\r\n");
  await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
});

testDatabases(
  "a token that was used before a restart gives the same answer after it",
  async (database) => {
    await using origin = await startOrigin(database);
    using client = await origin.connect();
    await client.send("token get k\r\n");
    const id = (await client.until("\r\n")).split(" ")[1]!.trim();
    await client.ask(`uput k 0 3 ${id}\r\none\r\n`, "STORED 1\r\n");
    origin.signal("SIGKILL");
    await origin.ended();
    await using next = await startOrigin(database);
    using again = await next.connect();
    await again.ask(`uput k 0 3 ${id}\r\none\r\n`, "STORED 1\r\n");
    await again.ask("gets k\r\n", "VALUE k 0 3 1\r\none\r\nEND\r\n");
  },
);

testDatabases("SIGTERM answers the request in progress, and ends", async (database) => {
  await using origin = await startOrigin(database);
  using client = await origin.connect();
  using idle = await origin.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  const ended = await origin.stop();
  assertEquals(ended.code, 0);
  assertEquals(await idle.rest(), "");
  // The folder of an origin before PostgreSQL is none.
  const { folder } = database;
  const left = folder === "" ? [] : await Array.fromAsync(Deno.readDir(folder));
  assert(!left.some(({ name }) => name.includes("journal")));
});
