// The tests that start no server and no other process, without checking types: what to run after each change.

import { readSources } from "../sources.ts";

/** Test files that start nothing and take many seconds all the same: `deno task test` runs them. */
const SLOW = new RegExp(
  "^tests/(?:fuzz/|transcripts/disturbances/|model_test|versions_test|hash_flooding_test|lib/(?:auth/authenticator|cli/option_roles|journal/(?:journal_loop|token_journal)|snapshot/snapshot_reader)_test|" +
    "protocol/(?:allocation|bounds|printed_keys|reply/given_back|request_state|restart|same_item|slices|work_budget|text/lists|traces)_test|" +
    "store/(?:cache|chaos|items/(?:hits|long_values)|memory/hot_keys|operations/(?:item_state|long_copies)|snapshot/(?:hostile_tables|snapshot_operations))_test|" +
    "store/space/(?:eviction|eviction_quality|page_mover)_test)",
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
const { code } = await new Deno.Command(Deno.execPath(), {
  args: [
    ...["test", "--lock=tests/deno.lock", "--no-prompt", "--no-check", "--allow-all", "--parallel"],
    ...["--preload=tests/support/time_limit.ts", "--reporter=dot", ...Deno.args, ...files],
  ],
  env: { LEASED_TESTS_EFFORT: "0.3" },
  stdout: "inherit",
  stderr: "inherit",
}).output();
Deno.exit(code);
