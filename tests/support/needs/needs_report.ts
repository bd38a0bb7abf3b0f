// Prints how many tests were ignored, and which tools were missing: `needs_report.ts <file> <ignored>`. Ends with
// status 1 when more were ignored than is known.

import { KNOWN_NEEDS, KNOWN_OTHERS } from "./known_needs.ts";

/** The report on a run of the tests. */
export interface NeedsReport {
  readonly line: string;
  /** Tools for which more tests were ignored than are known; empty: none. */
  readonly complaints: readonly string[];
}

/**
 * Reads what tests needed.
 *
 * @param records Lines of `needs.ts`.
 * @param ignored Tests that the runner ignored.
 */
export function reportNeeds(
  records: string,
  ignored: number,
  known: Readonly<Record<string, number>> = KNOWN_NEEDS,
  knownOthers = KNOWN_OTHERS,
): NeedsReport {
  const missing = new Map<string, number>();
  for (const [, tool] of records.matchAll(/^(.+) missing$/gm)) {
    missing.set(tool!, (missing.get(tool!) ?? 0) + 1);
  }
  const counts = [...missing].sort().map(([tool, count]) => `${count} without ${tool}`);
  const byTool = [...missing.values()].reduce((sum, count) => sum + count, 0);
  const others = Math.max(0, ignored - byTool);
  const complaints = [...missing].flatMap(([tool, count]) => {
    const most = known[tool] ?? 0;
    return count > most ? [`${counted(count)} ignored without ${tool}; known are ${most}`] : [];
  });
  if (others > knownOthers) {
    complaints.push(`${counted(others)} ignored for no tool; known are ${knownOthers}`);
  }
  const line = `ignored: ${[...counts, `${others} for no tool`].join(", ")}`;
  return { line, complaints };
}

function counted(tests: number): string {
  return tests === 1 ? "1 test is" : `${tests} tests are`;
}

if (import.meta.main) {
  const [path, ignored] = Deno.args;
  const { line, complaints } = reportNeeds(Deno.readTextFileSync(path!), Number(ignored));
  // deno-lint-ignore no-console -- the result
  console.log([line, ...complaints].join("\n"));
  Deno.exit(complaints.length > 0 ? 1 : 0);
}
