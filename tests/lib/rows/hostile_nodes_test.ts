import { assert, assertEquals, assertMatch } from "@std/assert";
import * as wire from "../../../lib/rows/nodes/wire.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { createDatabase } from "../../support/servers/databases.ts";
import { startNode, startOrigin } from "../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../support/servers/server_process.ts";

// Clients that speak as nodes, hostile or broken, at a real origin beside a real node.

const OVER = "NOT_FOUND\r\n";
/** Longer than a test. */
const LONG = ["--member-time", "600000"];

/** A client that speaks as a node. */
class FalseNode implements Disposable {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  static async connect(origin: ServerProcess): Promise<FalseNode> {
    return new FalseNode(await origin.connect());
  }

  async send(verb: string, session: string, number: number | string, block = ""): Promise<void> {
    await this.#client.send(`node ${verb} ${session} ${number} ${block.length}\r\n${block}\r\n`);
  }

  /** @returns The block; or the line of another reply. */
  async reply(): Promise<string> {
    const line = await this.#client.until("\r\n");
    const [, length] = /^NODE (\d+)\r\n$/.exec(line) ?? [];
    return length === undefined ? line : await this.#client.take(Number(length));
  }

  async ask(verb: string, session: string, number: number | string, block = ""): Promise<string> {
    await this.send(verb, session, number, block);
    return await this.reply();
  }

  async join(name: string, session = ""): Promise<string> {
    const join = { version: wire.WIRE_VERSION, name, session, prefixes: [""], expiry: "refuse" };
    return await this.ask("join", "-", 0, JSON.stringify(join));
  }

  /** Joins. @returns The session. */
  async enter(name: string, session = ""): Promise<string> {
    const block = await this.join(name, session);
    assert(block.startsWith("{"), block);
    return wire.unpackJoined(latin1Bytes(block)).session;
  }

  async poll(session: string, confirmed: number): Promise<ReturnType<typeof wire.unpackDue>> {
    return dueIn(await this.ask("poll", session, confirmed));
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
  }
}

function dueIn(block: string): ReturnType<typeof wire.unpackDue> {
  return wire.unpackDue(latin1Bytes(block), 0, 3_600_000);
}

Deno.test("a session has 128 random bits, and is in the reply to its join only", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, [...LONG, "-vvv"]);
  using node = await FalseNode.connect(origin);
  const sessions = [await node.enter("one"), await node.enter("two")];
  for (const session of sessions) assertMatch(session, /^\d+-[0-9a-f]{32}$/);
  const secrets = sessions.map((session) => session.split("-")[1]!);
  assert(secrets[0] !== secrets[1]);
  await node.ask("read", sessions[0]!, 0, latin1Text(wire.packKeys(["k"])));
  await node.ask("poll", sessions[0]!, 99);
  await node.ask("poll", sessions[0]!, "x");
  using client = await origin.connect();
  let shown = "";
  await client.send("nodes\r\n");
  shown += await client.until("END\r\n");
  for (const table of ["", " rows", " conns", " settings", " items", " threads"]) {
    await client.send(`stats${table}\r\n`);
    shown += await client.until(/END\r\n|ERROR[^\n]*\n/);
  }
  assertMatch(shown, /NODE one member/);
  await origin.stop();
  for (const secret of secrets) {
    assertEquals(`${shown}${origin.lines.join("\n")}`.includes(secret), false);
  }
});

Deno.test("nobody confirms for another node, or what was not sent: the write waits", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, LONG);
  using node = await FalseNode.connect(origin);
  using hostile = await FalseNode.connect(origin);
  const session = await node.enter("one");
  const own = await hostile.enter("one");
  await hostile.ask("leave", own, 0);
  using writer = await origin.connect();
  await writer.send("set k 0 0 1\r\n1\r\n");
  let due = await node.poll(session, 0);
  while (due.seq === 0) due = await node.poll(session, 0);
  assertEquals([due.seq, due.keys], [1, ["k"]]);
  const number = Number(session.split("-")[0]);
  const guesses = [
    own,
    `${number}-`,
    `${number}-1`,
    `${number}`,
    `${number}-${"0".repeat(32)}`,
    "-",
    "1-1",
  ];
  for (const guess of guesses) {
    assertEquals(await hostile.ask("poll", guess, 1), OVER, guess);
    assertEquals(await hostile.ask("leave", guess, 0), "", guess);
    await hostile.ask("leave", await hostile.enter("one", guess), 0);
  }
  for (const verb of ["poll", "leave", "read", "write", "command", "join", "noise"]) {
    for (const wrong of ["-1", "NaN", "1e9", "18446744073709551616", "1.0", "0x1"]) {
      const reply = await hostile.ask(verb, session, wrong);
      const allowed = verb === "command"
        ? /^SERVER_ERROR /
        : /^SERVER_ERROR the number of a deletion is /;
      assertMatch(reply, allowed, `${verb} ${wrong}`);
    }
  }
  for (const future of [2, 1000, Number.MAX_SAFE_INTEGER]) {
    assertEquals(
      await node.ask("poll", session, future),
      `SERVER_ERROR node one confirms deletion ${future}; it was sent those up to 1\r\n`,
    );
  }
  // Nothing of that has confirmed the deletion: it is still due.
  assertEquals((await node.poll(session, 0)).keys, ["k"]);
  await node.send("poll", session, 1);
  await writer.expect("STORED\r\n");
  assertEquals(dueIn(await node.reply()).seq, 0);
});

Deno.test("of two questions of one session both are answered, and one that has ended is told so", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, LONG);
  using one = await FalseNode.connect(origin);
  using two = await FalseNode.connect(origin);
  const session = await one.enter("one");
  await Promise.all([one.send("poll", session, 0), two.send("poll", session, 0)]);
  for (const node of [one, two]) assertEquals(dueIn(await node.reply()).seq, 0);
  await one.send("poll", session, 0);
  const next = await two.enter("one", session);
  assertMatch(await one.reply(), /^(?:NOT_FOUND\r\n|[^]{16})$/);
  assertEquals(await one.ask("poll", session, 0), OVER);
  assertEquals((await two.poll(next, 0)).seq, 0);
});

Deno.test("a node that confirms nothing is put out, and must wait", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, ["--member-time", "1000"]);
  using node = await FalseNode.connect(origin);
  const session = await node.enter("one");
  using writer = await origin.connect();
  await writer.send("set k 0 0 1\r\n1\r\n");
  while (await node.ask("poll", session, 0) !== OVER);
  await writer.expect("STORED\r\n");
  await writer.ask("set k 0 0 1\r\n2\r\n", "STORED\r\n");
  assertMatch(await node.join("two"), /^\{/);
  await origin.line(/node one is lost: .* it must join again, in \d+ ms at the earliest/);
  await until(async () => (await node.join("one")).startsWith("{"));
});

/** Requests that a hostile client sends again and again. */
async function attack(origin: ServerProcess, name: string, isOver: () => boolean): Promise<number> {
  using node = await FalseNode.connect(origin);
  let attacks = 0;
  let own = "";
  while (!isOver()) {
    for (let number = 1; number <= 4; number++) {
      for (const session of [`${number}-1`, `1-${number}`, `${number}-${"f".repeat(32)}`, own]) {
        if (session === "") continue;
        await node.ask("poll", session, session === own ? 0 : number).catch(() => "");
        await node.ask("poll", session, Number.MAX_SAFE_INTEGER);
        await node.ask("leave", session, 0);
      }
    }
    const joined = await node.join(name, `${attacks}-1`);
    own = joined.startsWith("{") ? JSON.parse(joined).session : "";
    attacks++;
  }
  if (own !== "") await node.ask("leave", own, 0);
  return attacks;
}

Deno.test("a node serves no old value while others speak in its name", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database);
  await using node = await startNode([origin], ["--node-name", "one"]);
  using writer = await origin.connect();
  using reader = await node.connect();
  let isOver = false;
  const attacks = ["one", "two"].map((name) => attack(origin, name, () => isOver));
  try {
    for (let round = 0; round < 100; round++) {
      const value = String(round);
      await writer.ask(`set k 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
      for (let read = 0; read < 2; read++) {
        await reader.send("get k\r\n");
        const reply = await reader.until(/END\r\n|SERVER_ERROR [^\n]*\n/);
        // On a busy machine its time may be over.
        if (reply.startsWith("SERVER_ERROR")) continue;
        assertEquals(reply, `VALUE k 0 ${value.length}\r\n${value}\r\nEND\r\n`);
      }
    }
  } finally {
    isOver = true;
  }
  for (const count of await Promise.all(attacks)) assert(count > 0);
});

Deno.test("malformed requests of a node are refused with a text, and the origin goes on", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, LONG);
  using node = await FalseNode.connect(origin);
  const session = await node.enter("one");
  const write = `\x01\0\0\x01${"\0".repeat(44)}k`;
  const nested = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
  const cases: [string, string][] = [
    ["read", "\0"],
    ["read", "\xff"],
    ["read", "\x05ab"],
    ["read", "\x01k".repeat(257)],
    ["write", "\x01"],
    ["write", write.slice(0, -1)],
    ["write", write.replace("\x01", "\x63")],
    ["write", `\x01\x63${write.slice(2)}`],
    ["write", `${write.slice(0, 8)}\xff\xff\xff\xff${write.slice(12)}`],
    ["write", `${write.slice(0, 16)}${"\xff".repeat(8)}${write.slice(24)}`],
    ["write", write.repeat(257)],
    ["join", ""],
    ["join", "null"],
    ["join", "[]"],
    ["join", "{"],
    ["join", '{"version":"3"}'],
    ["join", nested],
    ["join", `{"version":2,"name":"n","session":"","prefixes":${nested},"expiry":"refuse"}`],
    ["join", '{"version":2,"name":"a b","session":"","prefixes":[""],"expiry":"refuse"}'],
    ["join", '{"version":2,"name":"a\\nb","session":"","prefixes":[""],"expiry":"refuse"}'],
    ["join", '{"version":2,"name":"n","session":1,"prefixes":[""],"expiry":"refuse"}'],
    ["command", "flush_all"],
    ["command", "node poll - 0 0"],
    ["command", ""],
    ["noise", ""],
  ];
  for (const [verb, block] of cases) {
    const reply = await node.ask(verb, session, 0, block);
    assertMatch(
      reply,
      /^(?:SERVER|CLIENT)_ERROR [\x20-\x7e]+\r\n$/,
      `${verb} ${block.slice(0, 60)}`,
    );
  }
  assertEquals((await node.poll(session, 0)).seq, 0);
  using client = await origin.connect();
  await client.ask("get k\r\n", "END\r\n");
});
