import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BINARY_COMMANDS } from "../../../lib/proxy/binary/commands.ts";
import { COMMANDS } from "../../../lib/proxy/commands.ts";
import { readProxyCommand } from "../../../lib/proxy/options.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import {
  binaryReplies,
  saslLogin,
  textLogin,
  USER_LINES,
  withoutRefusals,
} from "../../support/sessions/auth_requests.ts";
import { numberBytes, packetText } from "../../support/sessions/binary_text.ts";
import { createDatabase } from "../../support/servers/databases.ts";
import { startProxy } from "../../support/servers/proxy_process.ts";
import { leastPermissions, ServerProcess } from "../../support/servers/server_process.ts";

const UNAUTHENTICATED = "CLIENT_ERROR unauthenticated\r\n";
const FAILED = "CLIENT_ERROR authentication failure\r\n";

/** A proxy and a cache, which both ask for passwords. */
async function withProxy(
  login: string,
  run: (proxy: ServerProcess, cache: ServerProcess, folder: string) => Promise<void>,
): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(`${folder}/users`, USER_LINES);
    Deno.writeTextFileSync(`${folder}/login`, login);
    await using cache = await ServerProcess.start({
      args: ["-Y", `${folder}/users`],
      permissions: [`--allow-read=${folder}`, ...leastPermissions("portable")],
    });
    await using proxy = await startProxy(
      { url: `sqlite:${folder}/db`, folder },
      [cache.port],
      ["-Y", `${folder}/users`, "--cache-login", `${folder}/login`, "--auth-timeout", "2"],
    );
    await run(proxy, cache, folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("a proxy asks for passwords, and logs in to its caches", async () => {
  await withProxy("ann:nna\n", async (proxy, cache, folder) => {
    using client = await proxy.connect();
    await client.ask("get k\r\n", UNAUTHENTICATED);
    await client.ask(textLogin("ann", "no"), FAILED);
    await client.ask("set x 0 0 3\r\nann\r\n", "CLIENT_ERROR bad authentication token format\r\n");
    await client.ask(
      `${textLogin("ann", "nna")}set k 0 0 1\r\nv\r\nget k\r\n`,
      "STORED\r\nSTORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
    );
    using atCache = await cache.connect();
    await atCache.ask(
      `${textLogin("carl", "lrac")}get k\r\n`,
      "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
    );
    using reader = await proxy.connect();
    await reader.ask(textLogin("carl", "lrac"), "STORED\r\n");
    await reader.ask(
      "set k 0 0 1\r\nw\r\n",
      "CLIENT_ERROR not permitted: this user may only read\r\n",
    );
    await reader.ask(
      "token list\r\n",
      "CLIENT_ERROR not permitted: this user is no administrator\r\n",
    );
    await reader.ask("get k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n");
    Deno.writeTextFileSync(`${folder}/users`, "eve:new\n");
    proxy.signal("SIGHUP");
    await proxy.line("reloaded; users: 1");
    using next = await proxy.connect();
    await next.ask(textLogin("ann", "nna"), FAILED);
    await next.ask(textLogin("eve", "new"), "STORED\r\n");
    using silent = await proxy.connect();
    assertEquals(await silent.rest(), "");
    await reader.ask("mn\r\n", "MN\r\n");
  });
});

Deno.test("before and behind a wrong password no command of the proxy is executed", async () => {
  await withProxy("ann:nna\n", async (proxy) => {
    using ann = await proxy.connect();
    await ann.ask(`${textLogin("ann", "nna")}set k 0 0 1\r\nv\r\n`, "STORED\r\nSTORED\r\n");
    for (const { name, wordsMin, lengthWord } of COMMANDS.values()) {
      if (name === "set") continue;
      const words = Array.from({ length: wordsMin }, (_, at) => at === lengthWord ? "1" : "k");
      const request = [name, ...words].join(" ") + (lengthWord < 0 ? "\r\n" : "\r\nw\r\n");
      using client = await proxy.connect();
      await client.send(`set x 0 0 3\r\nann\r\n${request}`);
      await client.socket.closeWrite();
      const reply = await client.rest();
      assert(reply.startsWith("CLIENT_ERROR bad authentication token format\r\n"), name);
      assertEquals(withoutRefusals(reply), "", name);
    }
    await ann.ask("get k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n");
  });
});

Deno.test("clients of the binary protocol authenticate by SASL", async () => {
  await withProxy("ann:nna\n", async (proxy) => {
    const version = packetText({ opcode: OPCODES.Version[0] });
    const get = packetText({ opcode: OPCODES.Get[0], key: "k" });
    const extras = numberBytes(0, 8);
    const set = packetText({ opcode: OPCODES.Set[0], key: "k", extras, value: "v" });
    assertEquals(await statusesOf(proxy, version + get + version), [0, 0x20]);
    using silent = await proxy.connect();
    assertEquals(await statusesOf(proxy, saslLogin("ann", "nna") + set + get), [0, 0, 0]);
    assertEquals(await statusesOf(proxy, saslLogin("carl", "lrac") + get + set + get), [
      0,
      0,
      0x20,
      0,
    ]);
    const mechanisms = packetText({ opcode: OPCODES.SaslMechanisms[0] });
    const begin = packetText({ opcode: OPCODES.SaslAuth[0], key: "PLAIN" });
    const step = (value: string): string =>
      packetText({ opcode: OPCODES.SaslStep[0], key: "PLAIN", value });
    const inTwo = mechanisms + begin + step("\0ann\0nna") + get;
    assertEquals(await statusesOf(proxy, inTwo), [0, 0x21, 0, 0]);
    assertEquals(await statusesOf(proxy, step("\0ann\0nna") + get), [0x20, 0x20]);
    const bad = ["", "ann", "\0ann", "\0ann\0", "bob\0ann\0nna", "x".repeat(2000)];
    for (const message of bad) {
      const login = packetText({ opcode: OPCODES.SaslAuth[0], key: "PLAIN", value: message });
      const expected = [message === "" ? 0x21 : 0x20, 0x20];
      assertEquals(await statusesOf(proxy, login + get), expected, message);
    }
    // Who authenticates anew loses the access that it had.
    const twice = saslLogin("ann", "nna") + saslLogin("ann", "no") + get;
    assertEquals(await statusesOf(proxy, twice), [0, 0x20, 0x20]);
    assertEquals(await statusesOf(proxy, saslLogin("ann", "nna") + begin + get), [0, 0x21, 0x20]);
    const long = packetText({ opcode: OPCODES.SaslAuth[0], bodyLength: 2 ** 31, keyLength: 5 });
    assertEquals(await statusesOf(proxy, long), [0x20]);
    assertEquals(await silent.rest(), "");
  });
});

Deno.test("before and behind a wrong password no command of the binary protocol is executed", async () => {
  await withProxy("ann:nna\n", async (proxy) => {
    const key = "k";
    using ann = await proxy.connect();
    await ann.ask(`${textLogin("ann", "nna")}set k 0 0 1\r\n1\r\n`, "STORED\r\nSTORED\r\n");
    for (const [opcode, { access, extrasLength, hasKey, hasValue }] of BINARY_COMMANDS) {
      if (access === Access.NONE) continue;
      const request = packetText({
        opcode,
        extras: numberBytes(0, extrasLength),
        ...hasKey ? { key } : {},
        ...hasValue ? { value: "w" } : {},
      });
      assertEquals(await statusesOf(proxy, request), [0x20], `${opcode}`);
      assertEquals(await statusesOf(proxy, saslLogin("ann", "no") + request), [0x20, 0x20]);
    }
    await ann.ask("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
  });
});

Deno.test("without -Y a proxy knows no SASL", async () => {
  await using database = await createDatabase("SQLite");
  await using cache = await ServerProcess.start();
  await using proxy = await startProxy(database, [cache.port], []);
  const get = packetText({ opcode: OPCODES.Get[0], key: "k" });
  assertEquals(await statusesOf(proxy, saslLogin("ann", "nna") + get), [0x81, 1]);
});

/** The statuses of all replies to a new client that sends `requests` and no more. */
async function statusesOf(proxy: ServerProcess, requests: string): Promise<number[]> {
  using client = await proxy.connect();
  await client.send(requests);
  await client.socket.closeWrite();
  return binaryReplies(await client.rest()).map(({ status }) => status);
}

Deno.test("a cache that refuses the proxy's login is named", async () => {
  await withProxy("ann:wrong\n", async (proxy, cache) => {
    const line = await proxy.line("cannot join yet");
    assertStringIncludes(line, `127.0.0.1:${cache.port}: the login of user ann was answered with`);
  });
  await withProxy("bob:bob\n", async (proxy) => {
    const line = await proxy.line("cannot join yet");
    assertStringIncludes(line, "not permitted: this user is no administrator");
  });
});

Deno.test("--require-auth refuses a proxy that other hosts can reach", () => {
  const info = {
    version: "0",
    runtime: "",
    pid: 1,
    unixMs: 0,
    random: 0,
    hashSeed: new Int32Array(2),
    keepsMemoryOrder: true,
  };
  const refused = readProxyCommand(["-l", "0.0.0.0", "--require-auth"], info);
  assertEquals(refused.kind === "refuse" && refused.errors, [
    "--require-auth: other hosts can reach 0.0.0.0:11311, and need no password; add -Y (--auth-file), " +
    "or listen on 127.0.0.1",
  ]);
  assertEquals(
    readProxyCommand(["-l", "0.0.0.0", "--require-auth", "-Y", "f"], info).kind,
    "proxy",
  );
  assertEquals(readProxyCommand(["--require-auth"], info).kind, "proxy");
});
