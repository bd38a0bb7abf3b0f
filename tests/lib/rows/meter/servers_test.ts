import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { printable } from "../../../../store/base/key_text.ts";
import { TableWriter } from "../../../chaos/table_writer.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";

const VERIFY = ["--verify", "1"];
/** Between two changes of a key, so that the meter can look at it several times. */
const SETTLE_MS = 3000;

/** Changes a row as a program does that nobody tells the cache of. */
async function changeUnseen(database: TestDatabase, key: string): Promise<void> {
  await using writer = new TableWriter(database);
  const change = "SET version = version + 1, value = ";
  const where = "WHERE key = ";
  await writer.query(
    database.folder === ""
      ? `UPDATE kv ${change}'new' ${where}'${key}'::bytea`
      : `UPDATE kv ${change}CAST('new' AS BLOB) ${where}CAST('${key}' AS BLOB)`,
  );
}

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir();
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

async function counter(client: Client, name: string): Promise<number> {
  await client.send("stats rows\r\n");
  const text = await client.until("END\r\n");
  return Number(new RegExp(`^STAT verified_${name} (\\d+)`, "m").exec(text)?.[1]);
}

/** Reads a key until the server's log has this. @returns The line. */
async function readUntil(
  client: Client,
  key: string,
  server: ServerProcess,
  line: string,
): Promise<string> {
  let isSaid = false;
  const said = server.line(line);
  // A test that fails ends the server.
  said.then(() => isSaid = true, () => {});
  await until(async () => {
    await client.send(`get ${key}\r\n`.repeat(50));
    for (let count = 0; count < 50; count++) await client.until("END\r\n");
    return isSaid;
  });
  return await said;
}

/** A wrong value is deleted behind the line of the log. */
function readsNew(client: Client, key: string): Promise<void> {
  return until(async () => {
    await client.send(`get ${key}\r\n`);
    return await client.until("END\r\n") === `VALUE ${key} 0 3\r\nnew\r\nEND\r\n`;
  });
}

testDatabases("the meter tells of a write that went past the origin", async (database) => {
  await using origin = await startOrigin(database, VERIFY);
  await using node = await startNode([origin], VERIFY);
  using client = await origin.connect();
  using atNode = await node.connect();
  const stored = "VALUE k 0 3\r\nold\r\nEND\r\n";
  await client.ask("set k 0 0 3\r\nold\r\nget k\r\n", `STORED\r\n${stored}`);
  await atNode.ask("get k\r\n", stored);
  await changeUnseen(database, "k");
  const line = await readUntil(client, "k", origin, "a cached value is older");
  assertMatch(line, /error: a cached value is older than the database has it: k, cached version 1/);
  // At the node, too.
  await readsNew(atNode, "k");
  assertEquals(await counter(client, "stale"), 1);
});

testDatabases(
  "the meter of a node tells of a write that went past the origin",
  async (database) => {
    await using origin = await startOrigin(database, ["--verify", "0"]);
    await using node = await startNode([origin], [...VERIFY, "--admin", "127.0.0.1:0"]);
    const [admin] = /http:\/\/[^/]+/.exec(await node.line("metrics are at http://"))!;
    using atNode = await node.connect();
    const health = async (): Promise<number> => {
      const response = await fetch(`${admin}/health`);
      await response.body?.cancel();
      return response.status;
    };
    await until(async () => await health() === 200);
    for (const key of ["k", "ключ"]) {
      const sent = latin1Text(new TextEncoder().encode(key));
      await atNode.ask(
        `set ${sent} 0 0 3\r\nold\r\nget ${sent}\r\n`,
        `STORED\r\nVALUE ${sent} 0 3\r\nold\r\nEND\r\n`,
      );
      await changeUnseen(database, key);
      await readUntil(atNode, sent, node, `has it: ${printable(sent)}, cached`);
      await readsNew(atNode, sent);
    }
    await until(async () => await health() === 503);
    using client = await origin.connect();
    await client.send("stats rows\r\n");
    assertEquals((await client.until("END\r\n")).includes("verified"), false);
  },
);

testDatabases("the meter finds followed changes and own writes right", async (database) => {
  await runInit(database, ["--follow", "--run"]);
  const args = [...VERIFY, "--follow"];
  await using origin = await startOrigin(database, args);
  await using node = await startNode([origin], VERIFY);
  const clients = [await origin.connect(), await node.connect()];
  for (const client of clients) await client.ask("set k 0 0 3\r\nold\r\n", "STORED\r\n");
  let round = 0;
  await until(async () => {
    round++;
    await changeUnseen(database, "k");
    for (const client of clients) {
      await client.ask(`set o${round} 0 0 1\r\n1\r\n`, "STORED\r\n");
      await client.send(`get k\r\nget o${round}\r\n`.repeat(20));
      for (let count = 0; count < 40; count++) await client.until("END\r\n");
    }
    const same = await Promise.all(clients.map((client) => counter(client, "same")));
    return same.every((count) => count >= 8);
  });
  for (const client of clients) {
    for (const name of ["stale", "phantom"]) assertEquals(await counter(client, name), 0, name);
    client[Symbol.dispose]();
  }
});

testDatabases(
  "with --stale quarantine, two wrong values end the caching of rows",
  async (database) => {
    await using origin = await startOrigin(database, [...VERIFY, "--stale", "quarantine"]);
    using client = await origin.connect();
    for (const key of ["a", "b"]) {
      await client.ask(
        `set ${key} 0 0 3\r\nold\r\nget ${key}\r\n`,
        `STORED\r\nVALUE ${key} 0 3\r\nold\r\nEND\r\n`,
      );
    }
    for (const key of ["a", "b"]) {
      await changeUnseen(database, key);
      await readUntil(client, key, origin, `has it: ${key},`);
    }
    await origin.line("no row is cached until a restart");
    using file = new DatabaseSync(database.url.slice("sqlite:".length), { timeout: 10_000 });
    // What is cached is dropped behind the line of the log.
    file.exec("UPDATE kv SET value = CAST('one' AS BLOB)");
    await until(async () => {
      await client.send("get a\r\n");
      return await client.until("END\r\n") === "VALUE a 0 3\r\none\r\nEND\r\n";
    });
    file.exec("UPDATE kv SET value = CAST('two' AS BLOB)");
    await client.ask("get a\r\n", "VALUE a 0 3\r\ntwo\r\nEND\r\n");
  },
  ["SQLite"],
);

testDatabases("the meter finds a view whose changes name other keys", async (database) => {
  await using folder = await temporaryFolder();
  const file = `${folder.path}/views.jsonc`;
  const view = (name: string, column: string): unknown => ({
    query: `SELECT count FROM item WHERE ${column} = {id}`,
    value: "raw",
    changes: { item: `${name}:{id}` },
  });
  await Deno.writeTextFile(
    file,
    JSON.stringify({ "right:{id}": view("right", "id"), "wrong:{id}": view("wrong", "number") }),
  );
  const place = {
    url: database.url,
    folder: [database.folder, folder.path].filter((each) => each !== "").join(),
  };
  await using writer = new TableWriter(database);
  await writer.query(
    "CREATE TABLE item (id integer PRIMARY KEY, number integer NOT NULL, count integer NOT NULL)",
  );
  await writer.query("INSERT INTO item VALUES (1, 2, 10)");
  const { code, stderr } = await runInit(place, ["--follow", "--views", file, "--run"]);
  assertEquals(code, 0, stderr);
  await using origin = await startOrigin(place, ["--follow", "--views", file, ...VERIFY]);
  using client = await origin.connect();
  const values = (right: number, wrong: number): string =>
    `VALUE right:1 0 2\r\n${right}\r\nVALUE wrong:2 0 2\r\n${wrong}\r\nEND\r\n`;
  await client.ask("get right:1 wrong:2\r\n", values(10, 10));
  let count = 10;
  // If the first result was not kept, the next one is stale.
  await until(async () => {
    count++;
    await writer.query(`UPDATE item SET count = ${count} WHERE id = 1`);
    await client.ask("follow wait now 30000\r\n", "OK\r\n");
    await client.send("get right:1 wrong:2\r\n".repeat(1500));
    for (let read = 0; read < 1500; read++) await client.until("END\r\n");
    return origin.lines.some((line) => line.includes("has it: wrong:2,"));
  }, SETTLE_MS);
  await until(async () => {
    await client.send("get right:1 wrong:2\r\n");
    return await client.until("END\r\n") === values(count, count);
  });
  assertEquals(origin.lines.filter((line) => line.includes("has it: right:1,")), []);
});

testDatabases("views that are replaced give no wrong verdict, also at a node", async (database) => {
  await using folder = await temporaryFolder();
  const file = `${folder.path}/views.jsonc`;
  const writeViews = (column: string): Promise<void> =>
    Deno.writeTextFile(
      file,
      JSON.stringify({
        "v:{id}": {
          query: `SELECT ${column} FROM item WHERE id = {id}`,
          value: "raw",
          changes: { item: "v:{id}" },
        },
      }),
    );
  const place = {
    url: database.url,
    folder: [database.folder, folder.path].filter((each) => each !== "").join(),
  };
  await using writer = new TableWriter(database);
  await writer.query("CREATE TABLE item (id integer PRIMARY KEY, one integer, two integer)");
  await writer.query("INSERT INTO item VALUES (1, 1, 2)");
  await writeViews("one");
  const { code, stderr } = await runInit(place, ["--follow", "--views", file, "--run"]);
  assertEquals(code, 0, stderr);
  await using origin = await startOrigin(place, ["--follow", "--views", file, ...VERIFY]);
  await using node = await startNode([origin], [...VERIFY, "--rows", "v:"]);
  const clients = [await origin.connect(), await node.connect()];
  for (let round = 0; round < 3; round++) {
    const column = round % 2 === 0 ? "two" : "one";
    await writeViews(column);
    origin.signal("SIGHUP");
    const compared = await Promise.all(clients.map((client) => counter(client, "same")));
    await until(async () => {
      for (const client of clients) {
        await client.send("get v:1\r\n".repeat(50));
        for (let count = 0; count < 50; count++) await client.until("END\r\n");
      }
      const same = await Promise.all(clients.map((client) => counter(client, "same")));
      return same.every((count, index) => count > compared[index]!);
    });
    const isReload = (line: string): boolean => line.includes("SIGHUP: 1 views are served");
    await until(() => origin.lines.filter(isReload).length === round + 1);
    const [first] = clients;
    await first!.ask("follow wait now 30000\r\n", "OK\r\n");
    const value = column === "one" ? 1 : 2;
    for (const client of clients) {
      await client.ask("get v:1\r\n", `VALUE v:1 0 1\r\n${value}\r\nEND\r\n`);
    }
  }
  for (const client of clients) {
    for (const name of ["stale", "phantom"]) assertEquals(await counter(client, name), 0, name);
    client[Symbol.dispose]();
  }
});

Deno.test("a database in memory is not compared", async () => {
  await using origin = await startOrigin({ url: "sqlite::memory:", folder: "" }, VERIFY);
  using client = await origin.connect();
  await client.ask("set k 0 0 3\r\nold\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\nold\r\nEND\r\n");
  assertEquals(await counter(client, "same"), 0);
  await origin.stop();
  assertEquals(origin.lines.filter((line) => line.includes("compared")), []);
});
