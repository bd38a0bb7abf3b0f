import { Buffer } from "node:buffer";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { path } from "./support/servers/server_process.ts";
import { textOf } from "./support/sessions/side.ts";

// The running deno stands in for the runtime binary of compiled programs, which would have to be downloaded. So the
// test shows what the executable contains, not that it runs.

/** The build lists the files it embeds; a folder that it embeds whole is one line. */
const EMBEDDED_FILES = [
  / main\.ts \(/,
  / (?:worker\.ts|server\/\*) \(/,
  / (?:journal_worker\.ts|journal\/\*) \(/,
  / (?:read_worker\.ts|snapshot\/\*) \(/,
  / (?:query_worker\.ts|sqlite\/\*) \(/,
  / postgres\b/,
  / (?:uplot\.js|assets\/\*|dashboard\/\*|admin\/\*) \(/,
];
/** The executable carries its settings as JSON. */
const SETTINGS = ['"prompt":false', '"features":["net"]', '"allow_net":[]', '"allow_ffi":[]'];

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
  const messages = textOf(stderr);
  assertEquals(code, 0, messages);
  for (const file of EMBEDDED_FILES) assertMatch(messages, file);
  const executable = Buffer.from((await Deno.readFile(output)).buffer);
  for (const setting of SETTINGS) assert(executable.includes(setting), setting);
  await Deno.remove(folder, { recursive: true });
});
