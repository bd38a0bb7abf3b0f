import { Buffer } from "node:buffer";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { path } from "../support/servers/server_process.ts";

// With Deno itself in place of its runtime binary, which would have to be fetched: what is put into
// the executable can be looked at, but the executable cannot be run.

Deno.test("deno task compile puts threads, features and permissions into the executable", async () => {
  const folder = await Deno.makeTempDir();
  const output = `${folder}/leased`;
  const { command } = JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks.compile;
  const [deno, ...args] = command.replace("--output leased", `--output ${output}`).split(" ");
  assertEquals(deno, "deno");
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd: path(""),
    env: { DENORT_BIN: Deno.execPath(), NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const said = new TextDecoder().decode(stderr);
  assertEquals(code, 0, said);
  assertStringIncludes(said, " worker.ts (");
  const executable = Buffer.from((await Deno.readFile(output)).buffer);
  for (const text of ['"prompt":false', '"features":["net"]', '"allow_net":[]']) {
    assert(executable.includes(text), text);
  }
  await Deno.remove(folder, { recursive: true });
});
