// The client library's package for npm: deno task client:pack [file] [--check]. What it needs of npm beyond `deno pack`
// (description, versions of Node) is `package` in contrib/client_package.json. With --check, JSR's and npm's own rules
// are tried, too; nothing is published.

const ROOT = new URL("..", import.meta.url).pathname;
const [output = "leased-client.tgz"] = Deno.args.filter((each) => each !== "--check");
/** Owner and name, in a workflow: npm's statement of provenance must name the same. */
const repository = Deno.env.get("GITHUB_REPOSITORY");
const isChecked = Deno.args.includes("--check");

async function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  const command = new Deno.Command(program, { args: [...args], cwd, stdout: "inherit" });
  const { success } = await command.output();
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
}

const folder = await Deno.makeTempDir({ prefix: "leased-client-" });
try {
  const { package: further, ...config } = JSON.parse(
    await Deno.readTextFile(`${ROOT}/contrib/client_package.json`),
  );
  const source = `${folder}/source`;
  await Deno.mkdir(source);
  await run("cp", ["-R", "lib/client", "lib/flow", "LICENSE", source], ROOT);
  await Deno.copyFile(`${ROOT}/contrib/client_readme.md`, `${source}/README.md`);
  await Deno.writeTextFile(`${source}/deno.json`, JSON.stringify(config));
  const packed = `${folder}/packed.tgz`;
  const pack = ["pack", "-q", "--allow-dirty", "--no-source-maps", "--output", packed];
  await run(Deno.execPath(), pack, source);
  if (isChecked) {
    await run(Deno.execPath(), ["publish", "-q", "--dry-run", "--allow-dirty"], source);
  }
  await run("tar", ["-xzf", packed], folder);
  const file = `${folder}/package/package.json`;
  const made = { ...JSON.parse(await Deno.readTextFile(file)), ...further };
  if (repository !== undefined) made.repository = `github:${repository}`;
  await Deno.writeTextFile(file, `${JSON.stringify(made, null, 2)}\n`);
  // Declarations with AsyncDisposable, for projects whose target is older.
  for (const path of Object.values(config.exports as Record<string, string>)) {
    const declaration = `${folder}/package/${path.replace(/ts$/, "d.ts")}`;
    const text = await Deno.readTextFile(declaration);
    await Deno.writeTextFile(declaration, `/// <reference lib="esnext.disposable" />\n${text}`);
  }
  await run("tar", ["-czf", packed, "package"], folder);
  if (isChecked) await run("npm", ["publish", "--silent", "--dry-run", packed], folder);
  await Deno.copyFile(packed, output);
} finally {
  await Deno.remove(folder, { recursive: true });
}
// deno-lint-ignore no-console -- the result
console.log(output);
