import { assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../support/servers/databases.ts";
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";

testDatabases(
  "examples/shop shows stale pages with plain caching; none with the client, nor with rows",
  async ({ url }) => {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-lock", "-A", path("examples/shop/run.ts"), "check", "400", url],
      cwd: path(""),
      stdin: "null",
    }).output();
    assertEquals(success, true, textOf(stderr));
    const [plain, coherent, rows] = textOf(stdout).trim().split("\n");
    assertMatch(plain!, /^plain caching: \d{3,} pages, [1-9]\d* stale$/);
    assertMatch(coherent!, /^coherent caching: \d{3,} pages, 0 stale$/);
    assertMatch(rows!, /^rows caching: \d{3,} pages, 0 stale$/);
  },
);
