// The tests that start no server and no other process, without checking types: what to run after each change.

import { FRESH_MEMORY } from "./allocation.ts";
import { testFiles, writeParts } from "./test_parts.ts";

const parts = writeParts(testFiles().quick, navigator.hardwareConcurrency);
const { code } = await new Deno.Command(Deno.execPath(), {
  args: [
    ...["test", "--lock=tests/deno.lock", "--no-prompt", "--no-check", "--allow-all", "--parallel"],
    ...["--preload=tests/support/time_limit.ts", "--reporter=dot", ...Deno.args, ...parts],
  ],
  env: { ...FRESH_MEMORY, LEASED_TESTS_EFFORT: "0.3" },
  stdout: "inherit",
  stderr: "inherit",
}).output();
Deno.exit(code);
