import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { createDatabase } from "../../support/servers/databases.ts";
import { startOrigin } from "../../support/servers/origin_process.ts";
import { UdpClient } from "../../support/servers/udp_client.ts";
import {
  type Client,
  residentKib,
  type ServerProcess,
  until,
} from "../../support/servers/server_process.ts";

const READS_ONLY = "CLIENT_ERROR not permitted: this user may only read\r\n";
const NO_NODE = "CLIENT_ERROR not permitted: this user is no node\r\n";
const NO_ADMIN = "CLIENT_ERROR not permitted: this user is no administrator\r\n";

async function logIn(server: ServerProcess, user: string): Promise<Client> {
  const client = await server.connect();
  const login = `${user} pw`;
  await client.ask(`set login 0 0 ${login.length}\r\n${login}\r\n`, "STORED\r\n");
  return client;
}

Deno.test("users write rows, take tokens and forget nodes by their level", async () => {
  await using database = await createDatabase("SQLite");
  const { folder } = database;
  const users = `${folder}/users`;
  Deno.writeTextFileSync(users, "rita read:pw\nwill write:pw\nnora node:pw\n", { mode: 0o600 });
  await using server = await startOrigin(database, ["-z", "3333", "-Y", users]);
  using writer = await logIn(server, "will");
  await writer.ask("set k 0 0 1\r\n1\r\n", "STORED\r\n");
  await writer.ask("token list\r\n", NO_ADMIN);
  await writer.ask("nodes forget 127.0.0.1:1\r\n", NO_ADMIN);
  for (const verb of ["join", "poll", "leave", "read", "write", "command"]) {
    await writer.ask(`node ${verb} - 0 2\r\n\x01k\r\n`, NO_NODE);
  }
  await writer.ask("uput k 0 1 77\r\n2\r\n", "NOT_FOUND\r\n");
  using reader = await logIn(server, "rita");
  await reader.ask("node poll - 0 0\r\n\r\n", NO_NODE);
  for (
    const line of [
      ...["set k 0 0 1\r\n2", "delete k", "incr k 1", "touch k 0", "md k", "ma k", "mg no N5"],
      ...[
        "getss 5 no",
        "deletess 5 k",
        "lock k",
        "token get k",
        "uput k 0 1 77\r\n2",
        "udelete k 77",
      ],
    ]
  ) {
    await reader.ask(`${line}\r\n`, READS_ONLY);
  }
  await reader.ask("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
  await reader.ask("uget k\r\n", "VALUE k 0 1 1 C\r\n1\r\nEND\r\n");
  await reader.ask("nodes\r\n", "END\r\n");
  using node = await logIn(server, "nora");
  for (const line of ["nodes forget 127.0.0.1:1", "token list", "token  revoke k", "node join"]) {
    await node.ask(
      `node command s 0 ${line.length}\r\n${line}\r\n`,
      "SERVER_ERROR this command is for the origin\r\n",
    );
  }
  await node.ask(
    "node command s 0 6\r\nuget k\r\n",
    "NODE 25\r\nVALUE k 0 1 1 C\r\n1\r\nEND\r\n",
  );
  const [key, write] = ["\x01k", `\x04\0\0\x01${"\0".repeat(44)}k`];
  for (const [verb, record] of [["read", key], ["write", write]] as const) {
    const block = record.repeat(257);
    await node.ask(
      `node ${verb} - 0 ${block.length}\r\n${block}\r\n`,
      "SERVER_ERROR a block of more than 256 records\r\n",
    );
  }
  await server.stop();
});

Deno.test("rows are refused over UDP; other keys are served", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database, ["-U", "-1", "--rows", "row:"]);
  const port = Number(/udp 127\.0\.0\.1:(\d+)/.exec(server.lines[0]!)![1]);
  using client = new UdpClient(port);
  const ask = async (requests: string): Promise<string> => {
    await client.send(7, requests);
    return (await client.receive())[1];
  };
  for (const line of ["get row:k", "set row:k 0 0 1\r\n1", "delete row:k", "mg row:k v"]) {
    const reply = await ask(`${line}\r\n`);
    assertEquals(reply, "SERVER_ERROR rows are not available over UDP\r\n", line);
  }
  assertEquals(await ask("set row 0 0 1\r\n1\r\n"), "STORED\r\n");
  assertEquals(await ask("get row\r\n"), "VALUE row 0 1\r\n1\r\nEND\r\n");
  await server.stop();
});

/** Sends what a client sends that leaves at once. */
const STORMS: readonly string[] = [
  "set storm 0 0 9\r\npipelined\r\n".repeat(500),
  "set storm 0 0 900000\r\nhalf a value",
  "set storm 0 0 6 noreply\r\nsilent\r\n".repeat(500),
  `get ${Array.from({ length: 100 }, (_, index) => `absent${index}`).join(" ")}\r\n`,
  "incr number 1\r\ndelete storm\r\n".repeat(100),
  "uput storm 0 10 77\r\n0123",
];

Deno.test("clients that leave in the middle of writes leave no connection and no request", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database);
  using client = await server.connect();
  for (let round = 0; round < 5; round++) {
    for (const storm of STORMS) {
      using hostile = await server.connect();
      await hostile.send(storm);
    }
  }
  await until(async () => {
    await client.send("stats\r\n");
    return (await client.until("END\r\n")).includes("STAT curr_connections 1\r\n");
  });
  await client.ask("set storm 0 0 4\r\nlast\r\n", "STORED\r\n");
  await client.ask("get storm number\r\n", "VALUE storm 0 4\r\nlast\r\nEND\r\n");
  await client.send("stats rows\r\n");
  const stats = await client.until("END\r\n");
  assertEquals(/tokens_busy (\d+)/.exec(stats)![1], "0");
  await server.stop();
});

Deno.test("clients that send many writes at once leave room for requests of others", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database, ["--db-timeout", "60000"]);
  using other = new DatabaseSync(`${database.folder}/rows.db`);
  other.exec("BEGIN EXCLUSIVE");
  using stack = new DisposableStack();
  using reader = await server.connect();
  // More than there are slots.
  for (let index = 0; index < 150; index++) {
    const hostile = stack.use(await server.connect());
    await hostile.send(`set h${index} 0 0 1\r\n1\r\n`.repeat(64));
    // It has been received.
    await reader.ask(`get early${index}\r\n`, "END\r\n");
  }
  using client = await server.connect();
  await client.send("set late 0 0 1\r\n1\r\n");
  await reader.ask("get late\r\n", "END\r\n");
  other.exec("COMMIT");
  await client.expect("STORED\r\n");
  await server.stop();
});

Deno.test("large values of many clients wait for each other's memory", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database, ["-m", "16"]);
  const write = async (name: string, count: number, bytes: number): Promise<void> => {
    using client = await server.connect();
    const value = name.repeat(bytes);
    for (let index = 0; index < count; index++) {
      await client.send(`set ${name}${index} 0 0 ${bytes}\r\n${value}\r\n`);
    }
    await client.send(`get ${name}${count - 1}\r\n`);
    const reply = `VALUE ${name}${count - 1} 0 ${bytes}\r\n${value}\r\nEND\r\n`;
    await client.expect("STORED\r\n".repeat(count) + reply);
  };
  const names = [..."abcdefghijklmn"];
  await Promise.all(names.map((name) => write(name, 2, 1_000_000)));
  await Promise.all(names.slice(0, 6).map((name) => write(name, 64, 50_000)));
  await server.stop();
});

Deno.test("uget of long rows by clients that read nothing, and leave, takes little memory", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database, ["-m", "64"]);
  using client = await server.connect();
  const [LENGTH, KEYS, CLIENTS] = [200_000, 4, 400];
  const keys = Array.from({ length: KEYS }, (_, n) => `long${n}`);
  for (const key of keys) {
    await client.ask(`set ${key} 0 0 ${LENGTH}\r\n${"x".repeat(LENGTH)}\r\n`, "STORED\r\n");
  }
  const beforeKib = residentKib(server.pid);
  const hostile = await Promise.all(Array.from({ length: CLIENTS }, () => server.connect()));
  const uget = `uget ${keys.join(" ")}\r\n`;
  for (const each of hostile) await each.send(uget.repeat(50));
  let mostKib = 0;
  for (let n = 0; n < 50; n++) {
    await client.ask(`set k${n} 0 0 1\r\n1\r\n`, "STORED\r\n");
    await client.ask(`get absent${n}\r\n`, "END\r\n");
    mostKib = Math.max(mostKib, residentKib(server.pid));
  }
  for (const each of hostile) each[Symbol.dispose]();
  await until(async () => (await client.stat("curr_connections")) === "1");
  await client.ask("uget k0\r\n", "VALUE k0 0 1 1 C\r\n1\r\nEND\r\n");
  // A quarter of -m for replies, three commands in progress, and garbage. Without bounds: 1 GB.
  assert(mostKib - beforeKib < 500_000, `${mostKib - beforeKib} KiB more than before`);
  await server.stop();
});
