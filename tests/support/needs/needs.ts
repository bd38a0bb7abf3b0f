/** Names a file to which tests append a line for each test that needs a tool: `<tool> there` or `<tool> missing`. */
const VARIABLE = "LEASED_TESTS_NEEDS";

/** A tool is missing that a test found to need when it ran. `time_limit.ts` counts the test as ignored. */
export class MissingToolError extends Error {
  override readonly name = "MissingToolError";

  constructor(readonly tool: string) {
    super(`this test needs ${tool}, which this machine lacks`);
  }
}

/**
 * Returns the part of a test's definition that ignores it where a tool is missing. Call it once for each test.
 *
 * @param tool As `known_needs.ts` names it.
 */
export function needs(tool: string, isThere: boolean): { readonly ignore: boolean } {
  note(tool, isThere);
  return { ignore: !isThere };
}

/** Ends a test that runs, if a tool is missing. @throws MissingToolError */
export function needNow(tool: string, isThere: boolean): void {
  if (!isThere) throw new MissingToolError(tool);
}

/** Records a test that needs a tool. */
export function note(tool: string, isThere: boolean): void {
  const path = Deno.env.get(VARIABLE);
  if (path === undefined) return;
  Deno.writeTextFileSync(path, `${tool} ${isThere ? "there" : "missing"}\n`, { append: true });
}
