function here(path: string): URL {
  return new URL(path, import.meta.url);
}

/** Modules of the runtime that the client library imports by name, and the files that take their place. */
const REPLACED = {
  "node:crypto": here("node_crypto.ts"),
  "node:net": here("node_net.ts"),
  "node:process": here("node_process.ts"),
  "node:timers": here("node_timers.ts"),
};

/** Set in a program that `mapped` has started. */
export const MAPPED_VARIABLE = "LEASED_TESTS_MAPPED";

/** A program with which the client library runs in virtual time. Dispose of it when it has ended. */
interface Mapped extends AsyncDisposable {
  readonly command: Deno.Command;
}

/**
 * Returns a command that runs a file, with modules of the runtime replaced for the client library.
 *
 * @param file Its path from the repository's root.
 */
export async function mapped(file: string, args: readonly string[]): Promise<Mapped> {
  const root = here("../../../");
  const folder = await Deno.makeTempDir({ prefix: "leased-mapped-" });
  const { imports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
  const replaced = Object.entries(REPLACED).map(([name, { href }]) => [name, href]);
  const scopes = { [new URL("lib/client/", root).href]: Object.fromEntries(replaced) };
  await Deno.writeTextFile(`${folder}/import_map.json`, JSON.stringify({ imports, scopes }));
  // The runtime writes to the lock file of a run with another import map.
  await Deno.copyFile(new URL("tests/deno.lock", root), `${folder}/deno.lock`);
  const command = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-check", "--no-prompt", "--allow-all", "--frozen=false"],
      ...[`--lock=${folder}/deno.lock`, `--import-map=${folder}/import_map.json`],
      ...[file, ...args],
    ],
    cwd: root,
    env: { [MAPPED_VARIABLE]: "1" },
    stdin: "null",
  });
  return { command, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}
