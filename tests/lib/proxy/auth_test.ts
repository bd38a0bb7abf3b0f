import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../../lib/proxy/commands.ts";
import { readProxyCommand } from "../../../lib/proxy/options.ts";
import { textLogin, USER_LINES, withoutRefusals } from "../../support/sessions/auth_requests.ts";
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
    await proxy.line("read anew; users: 1");
    using next = await proxy.connect();
    await next.ask(textLogin("ann", "nna"), FAILED);
    await next.ask(textLogin("eve", "new"), "STORED\r\n");
    // A binary Version, and the end of a line.
    const binary = `\x80\x0b${"\0".repeat(22)}\r\n`;
    using other = await proxy.connect();
    await other.ask(binary, UNAUTHENTICATED);
    await reader.ask(binary, "ERROR\r\n");
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
