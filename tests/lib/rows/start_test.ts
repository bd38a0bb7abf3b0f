import { assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../support/servers/databases.ts";
import { leastPermissions, runToEnd, ServerProcess } from "../../support/servers/server_process.ts";

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
