// Makes .bundle/server/: the server in few files. A server starts from it with half the work of a start from its 370
// modules, and `deno task test` starts some thousand. A test that is run alone starts servers from the sources, and so
// do all where Deno cannot download its bundler.
const ROOT = new URL("../../../", import.meta.url);
/** As deep as lib/process, from which the server finds its root. */
const FOLDER = new URL(".bundle/server/", ROOT);
const LOCK_FILE = "lib/databases/postgres/deno.lock";

/**
 * Modules that are loaded by an address relative to their importer, which the bundle has in FOLDER itself, and that
 * address.
 */
const LOADED: Readonly<Record<string, string>> = {
  "lib/server/worker": "worker",
  "lib/journal/journal_worker": "journal_worker",
  "lib/snapshot/read_worker": "read_worker",
  "lib/rows/database_worker": "database_worker",
  "lib/databases/sqlite/query_worker": "query_worker",
  "lib/databases/postgres/backend": "postgres/backend",
};

async function makeBundle(): Promise<void> {
  await Deno.remove(FOLDER, { recursive: true }).catch(() => {});
  const entries = ["main", ...Object.keys(LOADED)].map((name) => `${name}.ts`);
  const flags = [
    `--lock=${LOCK_FILE}`,
    "--platform=deno",
    "--code-splitting",
    "--outdir=.bundle/server",
  ];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", ...flags, ...entries],
    cwd: ROOT,
  }).output();
  if (!success) {
    const reason = new TextDecoder().decode(stderr).trim();
    // deno-lint-ignore no-console -- the result of the run
    console.error(`no bundle, so the servers of tests start from the sources: ${reason}`);
    return;
  }
  await Deno.rename(new URL("main.js", FOLDER), new URL("main.ts", FOLDER));
  await Deno.mkdir(new URL("postgres/", FOLDER));
  for (const [module, address] of Object.entries(LOADED)) {
    const up = address.includes("/") ? "../" : "./";
    await Deno.writeTextFile(
      new URL(`${address}.ts`, FOLDER),
      `export * from "${up}${module}.js";\n`,
    );
  }
}

await makeBundle();
