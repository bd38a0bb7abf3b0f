// `deno task bundle [FILE]`: makes one executable file (by default ./leased) of the running Deno, the sources and the
// npm packages that their lock file names. It needs the network only for packages that are not cached, and the file
// that it makes needs none. It runs where this Deno runs: same system, processor and C library.

const ROOT = new URL("../", import.meta.url).pathname;
const SOURCES = ["deno.json", "main.ts", "LICENSE", "lib", "protocol", "store", "types"];
/** Modules that are loaded by address, and so are not found from main.ts. */
const ENTRIES = [
  "main.ts",
  "lib/server/worker.ts",
  "lib/journal/journal_worker.ts",
  "lib/snapshot/read_worker.ts",
  "lib/rows/database_worker.ts",
  "lib/databases/sqlite/query_worker.ts",
  "lib/databases/postgres/backend.ts",
];

async function run(program: string, args: readonly string[], env = {}): Promise<void> {
  const { success } = await new Deno.Command(program, { args: [...args], cwd: ROOT, env }).output();
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
}

/** Returns the flags of `deno task compile` that concern the run, and the lock file. */
function runFlags(): { flags: string[]; lock: string } {
  const { command } = JSON.parse(Deno.readTextFileSync(`${ROOT}deno.json`)).tasks.compile;
  const words: string[] = command.split(" ");
  const lock = words.find((word) => word.startsWith("--lock="))!.slice("--lock=".length);
  const flags = words.filter((word) => /^--(v8-flags|no-prompt|allow-)/.test(word));
  return { flags, lock };
}

async function sha256(file: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", await Deno.readFile(file));
  return new Uint8Array(digest).toHex();
}

/** Makes the file. @param target Its path. */
async function bundle(target: string): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "leased-bundle-" });
  try {
    const { flags, lock } = runFlags();
    const cache = `${folder}/packages`;
    await run(Deno.execPath(), ["cache", `--lock=${lock}`, ...ENTRIES], { DENO_DIR: cache });
    const tree = `${folder}/tree`;
    await Deno.mkdir(`${tree}/cache`, { recursive: true });
    await run("cp", ["-R", `${cache}/npm`, `${tree}/cache/npm`]);
    await run("cp", ["-R", ...SOURCES, `${tree}/`]);
    await run("cp", [Deno.execPath(), `${tree}/deno`]);
    await Deno.chmod(`${tree}/deno`, 0o755);
    const payload = `${folder}/payload.tar.gz`;
    const names = [...Deno.readDirSync(tree)].map(({ name }) => name).sort();
    await run("tar", ["-czf", payload, "--owner=0", "--group=0", "-C", tree, ...names]);

    const template = await Deno.readTextFile(`${ROOT}contrib/bundle.sh`);
    const script = template
      .replace("@CONTENTS@", (await sha256(payload)).slice(0, 16))
      .replace("@PAYLOAD_LINE@", String(template.split("\n").length))
      .replace("@FLAGS@", [`--lock="$folder/${lock}"`, ...flags].join(" "));
    await Deno.writeTextFile(target, script, { mode: 0o755 });
    using file = await Deno.open(target, { append: true });
    using packed = await Deno.open(payload);
    await packed.readable.pipeTo(file.writable, { preventClose: true });
    await Deno.chmod(target, 0o755);
    // deno-lint-ignore no-console -- the result of the run
    console.log(`${target}: ${Math.round((await Deno.stat(target)).size / 2 ** 20)} MiB`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

await bundle(Deno.args[0] ?? "leased");
