// Loaded before each test file (`--preload`): gives every test a time limit, after which it fails with its name and the
// events that it waited for. A test that finds a tool missing ends there, says so, and is counted as ignored.

import { runInThisContext } from "node:vm";
import { MissingToolError, note } from "./needs/needs.ts";
import { endAll, waitedFor } from "./waiting.ts";

/** Changes the limit, in milliseconds. */
const VARIABLE = "LEASED_TESTS_LIMIT_MS";
/** Far above what any test takes on a busy machine. */
const LIMIT_MS = Number(Deno.env.get(VARIABLE) ?? 180_000);
/** The runner's own limit, for a test that never returns to the event loop. */
const RUNNER_LIMIT_MS = LIMIT_MS + Math.min(LIMIT_MS, 10_000);

type Body = (t: Deno.TestContext) => void | Promise<void>;
type Definition = Partial<Deno.TestDefinition>;

/** One definition of what the forms of `Deno.test` say (a name, options and a body in some of them), with the limit. */
function withLimit(...args: (string | Body | Definition)[]): Definition {
  const given: Definition = {};
  for (const argument of args) {
    if (typeof argument === "string") given.name = argument;
    else if (typeof argument === "function") given.fn = argument;
    else Object.assign(given, argument);
  }
  const { fn = (): void => {}, name = fn.name } = given;
  return { timeout: RUNNER_LIMIT_MS, ...given, name, fn: (t) => limited(name, () => fn(t)) };
}

/** Runs a body; rejects when it takes longer than the limit. */
async function limited(name: string, body: () => void | Promise<void>): Promise<void> {
  const { promise: timeIsUp, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const waits = waitedFor();
    const what = waits.length > 0 ? waits.join("; ") : "something it did not name";
    reject(new Error(`"${name}" is not done after ${LIMIT_MS} ms; it waits for: ${what}`));
    endAll();
  }, LIMIT_MS);
  try {
    await Promise.race([body(), timeIsUp]);
  } catch (error) {
    if (!(error instanceof MissingToolError)) throw error;
    note(error.tool, false);
    // deno-lint-ignore no-console -- why the test proves nothing here
    console.log(`ignored: ${error.message}`);
  } finally {
    clearTimeout(timer);
  }
}

// The runner says where a test stands by the first caller that is not the runtime's own, which a name with "ext:"
// makes of this function.
const wrap = runInThisContext(
  "(register, complete) => (...args) => register(complete(...args))",
  { filename: "ext:time_limit" },
);
Object.assign(Deno, { test: Object.assign(wrap(Deno.test, withLimit), Deno.test) });
