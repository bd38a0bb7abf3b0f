import { assertEquals, assertMatch } from "@std/assert";
import { leastPermissions, testTransports as test } from "../../support/servers/server_process.ts";

const SET = "set k 0 0 1\r\n1\r\n";

/** Options of a server that keeps its tokens in this directory. */
function withState(
  state: string,
  io: "portable" | "native",
): { args: string[]; permissions: string[] } {
  const permissions = leastPermissions(io)
    .map((flag) => flag.startsWith("--allow-read=") ? `${flag},${state}` : flag)
    .concat(`--allow-write=${state}`);
  return { args: ["--state-dir", state, "-vvv"], permissions };
}

test(
  "a peer that ends its side while the journal is written gets its tokens",
  async (start, io) => {
    const folder = await Deno.makeTempDir({ prefix: "leased-tokens-" });
    try {
      await using server = await start(withState(`${folder}/state`, io));
      using client = await server.connect();
      await client.send("token get k\r\ntoken get k\r\nmn\r\n");
      await client.socket.closeWrite();
      assertMatch(await client.rest(), /^(?:TOKEN \d+\r\n){2}MN\r\n$/);
      await server.stop();
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

test("with --tokens=volatile the server stores nothing for a while after its start", async (start) => {
  await using server = await start({ args: ["--tokens=volatile", "--token-quarantine", "3600"] });
  using client = await server.connect();
  await client.ask(SET, "NOT_STORED\r\n");
  assertEquals(await client.stat("quarantine"), "1");
  await client.send("token get k\r\n");
  assertMatch(await client.until("\r\n"), /^TOKEN \d+\r\n$/);
  await client.ask(
    "token drop k unsafe\r\n",
    "CLIENT_ERROR token drop not allowed; --allow-token-drop allows it\r\n",
  );
  await client.ask("quarantine off\r\n", "OK\r\n");
  await client.ask(SET, "NOT_STORED\r\n");
  await client.ask(SET.replace("k", "l"), "STORED\r\n");
  await server.stop();
});

test("the time of --token-quarantine ends by itself", async (start) => {
  await using server = await start({ args: ["--tokens=volatile", "--token-quarantine", "1"] });
  using client = await server.connect();
  while (await client.stat("quarantine") === "1");
  await client.ask(SET, "STORED\r\n");
  await server.stop();
});

test(
  "tokens outlive the server in its state directory, and no id comes twice",
  async (start, io) => {
    const folder = await Deno.makeTempDir({ prefix: "leased-tokens-" });
    const options = withState(`${folder}/state`, io);
    try {
      const ids: string[] = [];
      for (let round = 0; round < 3; round++) {
        await using server = await start(options);
        using writer = await server.connect();
        using reader = await server.connect();
        await writer.send("token get k me\r\ntoken get k\r\n");
        const replies = [await writer.until("\r\n"), await writer.until("\r\n")];
        ids.push(...replies.map((reply) => /^TOKEN (\d+)\r\n$/.exec(reply)![1]!));
        await reader.ask(SET, "NOT_STORED\r\n");
        assertEquals(await reader.stat("token_curr"), String(round + 2));
        const { code, stderr } = await server.stop();
        assertEquals(code, 0, stderr);
        assertMatch(stderr, /store check passed/);
      }
      const [mine] = ids;
      assertEquals(ids.filter((id) => id === mine).length, 3, "the same owner, the same token");
      assertEquals(new Set(ids).size, 4);
      await using server = await start(options);
      using client = await server.connect();
      for (const id of new Set(ids)) await client.ask(`token release k ${id}\r\n`, "OK\r\n");
      await client.ask(SET, "STORED\r\n");
      await server.stop();
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
