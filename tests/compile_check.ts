/**
 * Builds the executable with `deno task compile` and looks into it: `deno task compile:check`.
 *
 * The runtime that a compiled program starts from may not be at hand; with DENORT_BIN the running
 * deno takes its place. The result proves the build (types, embedded files, permissions, unstable
 * features), not that the program runs.
 */
const OUTPUT = new URL("../leased", import.meta.url);

const build = await new Deno.Command(Deno.execPath(), {
  args: ["task", "compile"],
  env: { NO_COLOR: "1", DENORT_BIN: Deno.execPath() },
}).output();
const said = new TextDecoder().decode(build.stderr) + new TextDecoder().decode(build.stdout);
if (!build.success) throw new Error(`deno compile failed:\n${said}`);

const program = new TextDecoder("latin1").decode(await Deno.readFile(OUTPUT));
await Deno.remove(OUTPUT);
const metadata = /\{"argv":\[\].{0,4000}/.exec(program)?.[0] ?? "";

const expected: Record<string, boolean> = {
  "main.ts is embedded": /main\.ts \(/.test(said),
  "the worker's entry is embedded": /worker\.ts \(/.test(said),
  "it may listen": metadata.includes('"allow_net":[]'),
  "it may call libc": metadata.includes('"allow_ffi":[]'),
  "it never prompts": metadata.includes('"prompt":false'),
  "reusePort and UDP are switched on": metadata.includes('"features":["net"]'),
};
for (const [fact, holds] of Object.entries(expected)) {
  // deno-lint-ignore no-console
  console.log(`${holds ? "ok" : "MISSING"}: ${fact}`);
}
if (!Object.values(expected).every(Boolean)) Deno.exit(1);
