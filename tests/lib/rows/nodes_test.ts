import { assert, assertEquals, assertMatch } from "@std/assert";
import { sharedPostgres, testDatabases } from "../../support/servers/databases.ts";
import { freePort } from "../../support/free_ports.ts";
import {
  NODE_PERMISSIONS as PERMISSIONS,
  startNode,
  startOrigin,
} from "../../support/servers/origin_process.ts";
import {
  type Client,
  runToEnd,
  type ServerProcess,
  ServerProcess as Server,
  until,
} from "../../support/servers/server_process.ts";

/** Asks again until the reply matches. */
async function eventually(server: ServerProcess, request: string, reply: RegExp): Promise<void> {
  await until(async () => {
    using client = await server.connect();
    await client.send(`${request}quit\r\n`);
    return reply.test(await client.rest());
  });
}

async function fill(client: Client, value: string): Promise<void> {
  await client.ask(`set k 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
}

testDatabases(
  "clients of two nodes and of their origin see each other's writes",
  async (database) => {
    await using origin = await startOrigin(database);
    await using one = await startNode([origin], ["--node-name", "one"]);
    await using two = await startNode([origin], ["--node-name", "two"]);
    using a = await one.connect();
    using b = await two.connect();
    using c = await origin.connect();
    for (let round = 0; round < 5; round++) {
      for (const writer of [a, b, c]) {
        const value = `value ${round} ${[a, b, c].indexOf(writer)}`;
        await fill(writer, value);
        for (const reader of [a, b, c]) {
          await reader.ask("get k\r\n", `VALUE k 0 ${value.length}\r\n${value}\r\nEND\r\n`);
        }
      }
    }
    await c.send("nodes\r\nquit\r\n");
    assertMatch(await c.rest(), /NODE one member \d+ \d+\r\nNODE two member \d+ \d+\r\nEND/);
  },
);

testDatabases("every write through a node ends as at its origin", async (database) => {
  await using origin = await startOrigin(database);
  await using node = await startNode([origin]);
  using client = await node.connect();
  const steps = [
    ["add a 7 0 1\r\n5\r\n", "STORED\r\n"],
    ["add a 7 0 1\r\n6\r\n", "NOT_STORED\r\n"],
    ["gets a\r\n", "VALUE a 7 1 1\r\n5\r\nEND\r\n"],
    ["cas a 7 0 1 9\r\n8\r\n", "EXISTS\r\n"],
    ["cas a 7 0 1 1\r\n8\r\n", "STORED\r\n"],
    ["cas none 0 0 1 1\r\n8\r\n", "NOT_FOUND\r\n"],
    ["incr a 4\r\n", "12\r\n"],
    ["decr a 100\r\n", "0\r\n"],
    ["incr none 1\r\n", "NOT_FOUND\r\n"],
    ["append a 0 0 1\r\nx\r\n", "STORED\r\n"],
    ["prepend a 0 0 1\r\ny\r\n", "STORED\r\n"],
    ["incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"],
    ["get a b\r\n", "VALUE a 7 3\r\ny0x\r\nEND\r\n"],
    ["replace b 0 0 1\r\nz\r\n", "NOT_STORED\r\n"],
    ["touch a 0\r\n", "TOUCHED\r\n"],
    ["ma n N0 J18446744073709551615 v\r\n", "VA 20\r\n18446744073709551615\r\n"],
    ["mg a s v\r\n", "VA 3 s3\r\ny0x\r\n"],
    ["delete a\r\n", "DELETED\r\n"],
    ["delete a\r\n", "NOT_FOUND\r\n"],
    ["get a\r\n", "END\r\n"],
    ["lock n\r\n", "CLIENT_ERROR rows cannot be locked at a node: lock them at its origin\r\n"],
  ] as const;
  for (const [request, reply] of steps) await client.ask(request, reply);
  // Values in several blocks, and many rows at once.
  const long = "v".repeat(200_000);
  for (const key of ["l1", "l2", "l3"]) {
    await client.ask(`set ${key} 0 0 ${long.length}\r\n${long}\r\n`, "STORED\r\n");
  }
  using reader = await origin.connect();
  const value = (key: string): string => `VALUE ${key} 0 ${long.length}\r\n${long}\r\n`;
  await reader.ask("get l1 l2 l3\r\n", `${value("l1")}${value("l2")}${value("l3")}END\r\n`);
  await client.ask("get l1 l2 l3\r\n", `${value("l1")}${value("l2")}${value("l3")}END\r\n`);
});

testDatabases("a row expires at a node when it expires in the database", async (database) => {
  const expiry = ["--row-expiry", "column"];
  await using origin = await startOrigin(database, expiry);
  await using node = await startNode([origin], expiry);
  using writer = await origin.connect();
  using reader = await node.connect();
  // Times left, in seconds: the node fetches the row, and answers from its cache.
  const left = async (client: Client): Promise<number> => {
    await client.send("mg k t\r\n");
    return Number(/^HD t(-?\d+)\r\n$/.exec(await client.until("\r\n"))![1]);
  };
  for (const [sender, seconds] of [[writer, 5000], [reader, 9000]] as const) {
    await sender.ask(`set k 0 ${seconds} 1\r\n1\r\n`, "STORED\r\n");
    for (const client of [reader, reader, writer]) {
      const sec = await left(client);
      // Clocks of servers count their seconds from their starts.
      assert(Math.abs(sec - seconds) < 1000, `${sec} of ${seconds} s are left`);
    }
  }
  // With the row's new time in the reply.
  await reader.ask("gat 2000 k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
  for (const client of [reader, writer]) assert(Math.abs(await left(client) - 2000) < 1000);
  await writer.ask("set k 0 0 1\r\n1\r\n", "STORED\r\n");
  for (const client of [reader, reader]) assertEquals(await left(client), -1);
  await writer.ask("set k 0 1 1\r\n1\r\n", "STORED\r\n");
  await until(async () => {
    await reader.send("get k\r\n");
    return await reader.until("END\r\n") === "END\r\n";
  });
});

testDatabases(
  "writes go on without a node that is stopped, and it answers nothing old",
  async (database) => {
    await using origin = await startOrigin(database, ["--member-time", "500"]);
    await using node = await startNode([origin]);
    using reader = await node.connect();
    // On a busy machine the time of either may be over for a moment.
    await eventually(origin, "set k 0 0 3\r\none\r\n", /^STORED/);
    await eventually(node, "get k\r\n", /^VALUE k 0 3\r\none\r\nEND/);
    node.signal("SIGSTOP");
    await eventually(origin, "set k 0 0 3\r\ntwo\r\n", /^STORED/);
    await reader.send("get k\r\nquit\r\n");
    node.signal("SIGCONT");
    assertMatch(
      await reader.rest(),
      /^(VALUE k 0 3\r\ntwo\r\nEND\r\n|SERVER_ERROR rows are not available: no confirmation from origin 127.*\r\n)$/,
    );
    await eventually(node, "get k\r\n", /^VALUE k 0 3\r\ntwo\r\n/);
  },
);

testDatabases("a long membership is renewed before its node gives up", async (database) => {
  await using origin = await startOrigin(database, ["--member-time", "600000"]);
  await using node = await startNode([origin], ["--node-name", "one"]);
  using client = await origin.connect();
  let lastMs = 0;
  for (let renewals = 0; renewals < 6;) {
    await client.send("nodes\r\n");
    const [, age] = /NODE one member (\d+) /.exec(await client.until("END\r\n")) ?? [];
    if (Number(age) < lastMs) renewals++;
    lastMs = Number(age);
  }
  using reader = await node.connect();
  await reader.send("stats rows\r\n");
  assertMatch(await reader.until("END\r\n"), /STAT node_joins 1\r\n/);
}, ["SQLite"]);

testDatabases("a node that ends signs off: no write waits for it", async (database) => {
  // Longer than the test may take.
  await using origin = await startOrigin(database, ["--member-time", "600000"]);
  await using node = await startNode([origin], ["--node-name", "one"]);
  using reader = await node.connect();
  using writer = await origin.connect();
  await fill(writer, "one");
  await reader.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  node.signal("SIGTERM");
  assertEquals((await node.ended()).code, 0);
  await fill(writer, "two");
  await writer.send("nodes\r\nquit\r\n");
  assertMatch(await writer.rest(), /^END\r\n$/);
  await origin.line("node one has ended");
});

testDatabases(
  "an origin that ends before its nodes leaves their time to the next one",
  async (database) => {
    const servedMs = async (): Promise<string> =>
      await (await sharedPostgres()).execute("SELECT serves_ms FROM leased_proxy", database.url);
    for (const isFirst of [false, true]) {
      await using origin = await startOrigin(database, ["--member-time", "600000"]);
      await using node = await startNode([origin]);
      if (!isFirst) {
        node.signal("SIGTERM");
        await node.ended();
      }
      origin.signal("SIGTERM");
      assertEquals((await origin.ended()).code, 0);
      assertEquals(await servedMs(), isFirst ? "600000" : "0");
    }
  },
  ["PostgreSQL"],
);

testDatabases(
  "a node without its origin answers ordinary items, and comes back by a stand-by",
  async (database) => {
    await using origin = await startOrigin(database, [
      "--rows",
      "r:",
      "--member-time",
      "500",
    ]);
    const port = freePort();
    await using node = await startNode([origin, { port }], ["--rows", "r:"]);
    using client = await node.connect();
    await client.ask("set i 0 0 1\r\n1\r\n", "STORED\r\n");
    await eventually(
      node,
      "set r:k 0 0 1\r\n1\r\nget r:k\r\n",
      /^STORED\r\nVALUE r:k 0 1\r\n1\r\nEND/,
    );
    origin.signal("SIGKILL");
    await origin.ended();
    await eventually(
      node,
      "get r:k\r\n",
      /^SERVER_ERROR rows are not available: no confirmation from/,
    );
    await client.ask("get i\r\n", "VALUE i 0 1\r\n1\r\nEND\r\n");
    const args = ["--rows", "r:", "--member-time", "500", "-p", String(port), "-l", "127.0.0.1"];
    await using _standby = await startOrigin(database, ["--standby", ...args]);
    await eventually(node, "set r:k 0 0 1\r\n2\r\n", /^STORED\r\n/);
    await eventually(node, "get r:k\r\n", /^VALUE r:k 0 1\r\n2\r\n/);
    await client.ask("get i\r\n", "VALUE i 0 1\r\n1\r\nEND\r\n");
  },
);

testDatabases("a server that cannot be the origin ends the start of a node", async (database) => {
  await using origin = await startOrigin(database, ["--rows", "r:"]);
  await using plain = await Server.start({ io: "native", permissions: PERMISSIONS });
  await using node = await startNode([origin], ["--rows", "r:"]);
  const cases = [
    [plain.port, [], /cannot become a node: 127.0.0.1:\d+ is no origin: a server with --db/],
    [node.port, [], /this server is a node, and no origin/],
    [
      origin.port,
      ["--rows", "other:"],
      /--rows of the node: other:; of this origin: r:; they must be equal/,
    ],
    [
      origin.port,
      ["--rows", "r:", "--row-expiry", "ignore"],
      /--row-expiry of the node: ignore; of this origin: refuse; they must be equal/,
    ],
  ] as const;
  for (const [port, args, error] of cases) {
    const { code, stderr } = await runToEnd({
      io: "native",
      permissions: PERMISSIONS,
      args: ["-p", "-1", "--origin", `127.0.0.1:${port}`, ...args],
    });
    assertMatch(stderr, error);
    assertEquals(code === 0, false);
  }
}, ["SQLite"]);
