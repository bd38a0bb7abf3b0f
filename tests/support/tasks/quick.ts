// The tests that start no server and no other process, without checking types: what to run after each change.

import { readSources } from "../sources.ts";

/** Test files that start nothing and take many seconds all the same: `deno task test` runs them. */
const SLOW = new RegExp(
  "^tests/(?:fuzz/|transcripts/disturbances/|model_test|lib/(?:auth/authenticator|cli/option_roles|journal/journal_loop)_test|" +
    "protocol/(?:allocation|printed_keys|reply/given_back|request_state|restart|same_item|work_budget)_test|" +
    "store/(?:cache|chaos|operations/long_copies|snapshot/hostile_tables|space/eviction_quality)_test)",
);
/** Of support: files that start processes, or threads that serve. */
const STARTS = /\bnew Deno\.Command\(|\bnew Worker\(|\bDeno\.(?:listen|serve|connect)\w*\(/;

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

const files = [...sources.keys()].filter((path) =>
  path.startsWith("tests/") && path.endsWith("_test.ts") && !starts(path) && !SLOW.test(path)
);

// A module for each core imports its share: to load the sources anew for each file takes longer than the tests.
const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
const root = new URL("../../../", import.meta.url);
const parts = Array.from({ length: navigator.hardwareConcurrency }, (_, part) => {
  const share = files.filter((_, index) => index % navigator.hardwareConcurrency === part);
  const path = `${folder}/part${part}_test.ts`;
  const imports = share.map((file) => `import ${JSON.stringify(new URL(file, root).href)};\n`);
  Deno.writeTextFileSync(path, imports.join(""));
  return path;
});
try {
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", `--config=${decodeURIComponent(new URL("deno.json", root).pathname)}`],
      ...["--lock=tests/deno.lock", "--no-prompt", "--no-check", "--allow-all", "--parallel"],
      ...["--preload=tests/support/time_limit.ts", "--reporter=dot", ...Deno.args, ...parts],
    ],
    env: { LEASED_TESTS_EFFORT: "0.3" },
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  Deno.exitCode = code;
} finally {
  Deno.removeSync(folder, { recursive: true });
}
