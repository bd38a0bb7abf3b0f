import { assertEquals, assertLessOrEqual } from "@std/assert";
import { isInstalled } from "../support/servers/peers.ts";
import { leastPermissions, path, ServerProcess } from "../support/servers/server_process.ts";
import { textOf } from "../support/sessions/side.ts";
import { needs } from "../support/needs/needs.ts";

const PYTHON = "/usr/bin/python3";

function run(args: readonly string[]): Deno.CommandOutput {
  return new Deno.Command("timeout", { args: ["--signal=KILL", "60", PYTHON, ...args] })
    .outputSync();
}

Deno.test({
  name: "the flows of examples/coherent_pymemcache.py keep the rules of leases, locks and tokens",
  ...needs("pymemcache", isInstalled([PYTHON, "-c", "import pymemcache"])),
  async fn(): Promise<void> {
    const folder = Deno.makeTempDirSync();
    {
      await using server = await ServerProcess.start({
        args: ["-z", "3333", "--state-dir", folder],
        permissions: [
          `--allow-write=${folder}`,
          `--allow-read=${folder}`,
          ...leastPermissions("portable"),
        ],
      });
      const { code, stderr } = run([path("tests/clients/coherent_flows.py"), `${server.port}`]);
      assertEquals(code, 0, textOf(stderr));
    }
    Deno.removeSync(folder, { recursive: true });
  },
});

Deno.test("examples/coherent_pymemcache.py has at most 200 lines", () => {
  const lines = Deno.readTextFileSync(path("examples/coherent_pymemcache.py")).split("\n");
  assertLessOrEqual(lines.length, 201);
});
