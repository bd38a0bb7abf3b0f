// Test files that start no server and no other process share a module: to load the sources anew for each of them takes
// longer than their tests.

import { readSources } from "../sources.ts";

const ROOT = new URL("../../../", import.meta.url);
const FOLDER = ".bundle/tests";
/** Files in a part at most, of the test command: cores share the work evenly. */
const PART_LENGTH = 16;
/** Of support: files that start processes, or threads that serve. */
const STARTS = /\bnew Deno\.Command\(|\bnew Worker\(|\bDeno\.(?:listen|serve|connect)\w*\(/;
/** Test files that start nothing and take many seconds all the same. */
const SLOW = new RegExp(
  "^tests/(?:fuzz/|transcripts/disturbances/|model_test|lib/(?:auth/authenticator|cli/option_roles|journal/journal_loop)_test|" +
    "protocol/(?:allocation|printed_keys|reply/given_back|request_state|restart|same_item|work_budget)_test|" +
    "store/(?:cache|chaos|operations/long_copies|snapshot/hostile_tables|space/eviction_quality)_test)",
);

const sources = new Map(readSources().map((source) => [source.path, source]));
const starting = new Map<string, boolean>();

/** Whether a file of the tests, or one that it imports, starts processes. Sources of the server do not count. */
function starts(path: string): boolean {
  const known = starting.get(path);
  if (known !== undefined) return known;
  starting.set(path, false);
  const source = sources.get(path);
  const isStarting = source !== undefined && path.startsWith("tests/") &&
    (STARTS.test(source.text) || source.imports.some(starts));
  starting.set(path, isStarting);
  return isStarting;
}

/** All test files: the quick ones, which start nothing and take little time, and the others. */
export function testFiles(): { readonly quick: string[]; readonly others: string[] } {
  const files = [...sources.keys()].filter((path) =>
    path.startsWith("tests/") && path.endsWith("_test.ts")
  );
  const { quick = [], others = [] } = Object.groupBy(
    files,
    (path) => starts(path) || SLOW.test(path) ? "others" : "quick",
  );
  return { quick, others };
}

/** Writes modules that import test files, each its share. @returns Their paths, from the root. */
export function writeParts(files: readonly string[], count: number): string[] {
  const folder = new URL(`${FOLDER}/`, ROOT);
  Deno.mkdirSync(folder, { recursive: true });
  for (const { name } of [...Deno.readDirSync(folder)]) Deno.removeSync(new URL(name, folder));
  return Array.from({ length: count }, (_, part) => {
    const share = files.filter((_, index) => index % count === part);
    const path = `${FOLDER}/part${part}_test.ts`;
    const imports = share.map((file) => `import ${JSON.stringify(`../../${file}`)};\n`);
    Deno.writeTextFileSync(new URL(path, ROOT), imports.join(""));
    return path;
  });
}

// For the command line of `deno test`.
if (import.meta.main) {
  const { quick, others } = testFiles();
  const parts = writeParts(quick, Math.ceil(quick.length / PART_LENGTH));
  // deno-lint-ignore no-console -- the result of the run
  console.log([...others, ...parts].join("\n"));
}
