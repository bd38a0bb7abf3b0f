import { assert, assertEquals } from "@std/assert";
import { path } from "./support/servers/server_process.ts";
import { textOf } from "./support/sessions/side.ts";

// `deno task` downloads every package that deno.lock names before it starts a command. So deno.lock
// names the server's packages only, tests/deno.lock names those that tests need as well, and
// lib/databases/postgres/deno.lock the driver that an origin before PostgreSQL imports when it starts.

/** The files that the server's threads start from. */
const ENTRIES = ["main.ts", "lib/server/worker.ts"];

interface LockFile {
  /** By name and version. */
  readonly npm: Readonly<Record<string, { readonly integrity: string }>>;
}

function readJson(name: string): unknown {
  return JSON.parse(Deno.readTextFileSync(path(name)));
}

/** As `deno info --json` prints it. */
interface ModuleGraph {
  readonly modules: readonly { readonly npmPackage?: string }[];
  /** Every package of the lock file, whether or not a module of the graph imports it. */
  readonly npmPackages: Readonly<Record<string, { readonly dependencies: readonly string[] }>>;
}

/**
 * Names and versions of the packages in a file's module graph, and of those that they depend on.
 * Reads the runtime's cache; downloads nothing.
 */
async function packagesOf(entry: string): Promise<Set<string>> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--lock", path("tests/deno.lock"), path(entry)],
    cwd: path(""),
    stdin: "null",
  }).output();
  assertEquals(code, 0, textOf(stderr));
  const graph: ModuleGraph = JSON.parse(textOf(stdout));
  const packages = new Set(graph.modules.flatMap(({ npmPackage }) => npmPackage ?? []));
  // A set's loop visits what is added meanwhile.
  for (const name of packages) {
    for (const dependency of graph.npmPackages[name]!.dependencies) packages.add(dependency);
  }
  return packages;
}

const server = (readJson("deno.lock") as LockFile).npm;
const tests = (readJson("tests/deno.lock") as LockFile).npm;
const origin = (readJson("lib/databases/postgres/deno.lock") as LockFile).npm;
const testOnly = Object.keys(tests).filter((name) => !(name in server));

Deno.test("deno.lock names exactly the packages that the server imports", async () => {
  const graphs = await Promise.all(ENTRIES.map(packagesOf));
  const imported = [...new Set(graphs.flatMap((graph) => [...graph]))];
  assertEquals(imported.filter((name) => testOnly.includes(name)), []);
  assertEquals(Object.keys(server).toSorted(), imported.toSorted());
});

Deno.test("a test-only package in a module graph is found", async () => {
  const packages = await packagesOf("tests/model_test.ts");
  assert(testOnly.some((name) => packages.has(name)), "fast-check and pure-rand");
});

Deno.test("the origin's lock file names what the server and the driver of PostgreSQL import", async () => {
  const graphs = await Promise.all(
    [...ENTRIES, "lib/databases/postgres/backend.ts"].map(packagesOf),
  );
  const imported = new Set(graphs.flatMap((graph) => [...graph]));
  assertEquals(Object.keys(origin).toSorted(), [...imported].toSorted());
});

Deno.test("deno.lock, the origin's and tests/deno.lock agree, and neither changes by itself", () => {
  for (const [name, { integrity }] of Object.entries({ ...server, ...origin })) {
    assertEquals(tests[name]?.integrity, integrity, name);
  }
  assert(testOnly.length > 0, "tests have packages of their own");
  const { lock } = readJson("deno.json") as { lock: { frozen: boolean } };
  assertEquals(lock.frozen, true);
});
