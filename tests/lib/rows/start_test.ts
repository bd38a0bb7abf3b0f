import { assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../support/servers/databases.ts";
import { launchOrigin } from "../../support/servers/origin_process.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { leastPermissions, runToEnd, ServerProcess } from "../../support/servers/server_process.ts";

/** A cache that accepts requests, and never replies. */
class SilentCache extends ScriptedPeer {
  /** Resolves at the first request. */
  readonly asked: Promise<void>;

  constructor() {
    const asked = Promise.withResolvers<void>();
    super(() => {
      asked.resolve();
      return [];
    });
    this.asked = asked.promise;
  }
}

testDatabases("a server whose cache does not answer ends cleanly at SIGTERM", async (database) => {
  await using cache = new SilentCache();
  await using origin = launchOrigin(database, [cache.port], ["--cache-timeout", "600000"]);
  await cache.asked;
  await origin.line("listens on");
  origin.signal("SIGTERM");
  const { code, stderr } = await origin.ended();
  assertEquals(code, 0, stderr);
  assertMatch(stderr, /SIGTERM: shutting down, finishing requests in progress/);
});

testDatabases(
  "a server starts beside a cache that does not answer, and SIGHUP changes its list",
  async (database) => {
    const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
    const path = `${folder}/caches`;
    try {
      await using silent = new SilentCache();
      await using cache = await ServerProcess.start();
      Deno.writeTextFileSync(path, `127.0.0.1:${silent.port}\n`);
      const args = ["--caches", path, "--cache-timeout", "300"];
      await using origin = launchOrigin(database, [], args);
      await origin.line("listens on");
      Deno.writeTextFileSync(path, `127.0.0.1:${cache.port}\n`);
      origin.signal("SIGHUP");
      await origin.line(new RegExp(`list of caches, epoch \\d+: 127.0.0.1:${cache.port}$`));
      using client = await origin.connect();
      await client.ask("set k 0 0 1\r\nv\r\n", "STORED\r\n");
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
);

testDatabases(
  "missing permissions of rows are named, and the command printed runs",
  async (database) => {
    const args = ["-p", "-1", "-t", "1", "--db", database.url];
    const { code, stderr } = await runToEnd({ permissions: leastPermissions("portable"), args });
    assertEquals(code, 77, stderr);
    const flags = database.folder === ""
      ? /--allow-env='PG\*,USERNAME,USER,LOGNAME'/
      : /--allow-read=\S+rows\.db,\S+rows\.db-origin --allow-write=\S+rows\.db,\S+rows\.db-origin$/m;
    assertMatch(stderr, flags);
    const line = stderr.split("\n").find((text) => text.includes(" deno run "))!;
    const words = line.slice(line.indexOf("deno run ") + "deno ".length);
    await using server = await ServerProcess.spawn(
      new Deno.Command("sh", {
        args: ["-c", `exec "$0" ${words}`, Deno.execPath()],
        env: { NO_COLOR: "1" },
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }),
    );
    using client = await server.connect();
    await client.ask("set k 0 0 1\r\nv\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
  },
);
