import { assertEquals } from "@std/assert";
import { PYTHON, ROW_CLIENTS } from "../../clients/row_clients.ts";
import { createDatabase } from "../../support/servers/databases.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { startOrigin } from "../../support/servers/origin_process.ts";
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { needs } from "../../support/needs/needs.ts";

// Clients that others wrote write and read rows through the origin. One that is not installed is left out by name.

for (const { name, probe, command } of ROW_CLIENTS) {
  Deno.test(
    `${name} writes and reads rows through the origin`,
    needs(name, isInstalled(probe)),
    async () => {
      await using database = await createDatabase("SQLite");
      await using origin = await startOrigin(database);
      const { code, stdout, stderr } = await new Deno.Command("timeout", {
        args: ["--signal=KILL", "60", ...command, `${origin.port}`, "c:"],
        stdin: "null",
      }).output();
      assertEquals(code, 0, textOf(stdout) + textOf(stderr));
      using client = await origin.connect();
      await client.send("gets c:a\r\n");
      assertEquals((await client.until("END\r\n")).split("\r\n")[1], "last");
    },
  );
}

Deno.test("examples/rows_pymemcache.py writes and reads a row", {
  ...needs("pymemcache", isInstalled([PYTHON, "-c", "import pymemcache"])),
}, async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database);
  const example = Deno.readTextFileSync(path("examples/rows_pymemcache.py"));
  const { code, stderr } = await new Deno.Command(PYTHON, {
    args: ["-c", example.replace("11311", `${origin.port}`)],
  }).output();
  assertEquals(code, 0, textOf(stderr));
});
