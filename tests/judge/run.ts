// The judge of histories: deno task judge <file>… prints a verdict for each file. The status is 1 after a violation,
// and 65 (EX_DATAERR of sysexits.h) when a file cannot be judged.
import { EX_USAGE, readLine } from "../support/options.ts";
import { judge, violationText } from "./judge.ts";
import { HistoryError, readHistory } from "./read_history.ts";

const EX_DATAERR = 65;
const SHOWN_MAX = 20;

// deno-lint-ignore no-console
const report = console.log;
// deno-lint-ignore no-console
const complain = console.error;

/** Prints the verdict on a file. @returns The status. */
async function judgeFile(path: string): Promise<number> {
  try {
    const { violations, ...count } = judge(await readHistory(path));
    const found = violations.length === 0 ? "atomic" : `${violations.length} violations`;
    const counted = `${count.keys} keys, ${count.operations} operations`;
    report(`${path}: ${counted}, ${count.unclear} unclear, ${count.leftOut} left out: ${found}`);
    for (const violation of violations.slice(0, SHOWN_MAX)) report(violationText(violation));
    return violations.length === 0 ? 0 : 1;
  } catch (error) {
    if (!(error instanceof HistoryError)) throw error;
    complain(`${path}${error.line === null ? "" : `:${error.line}`}: ${error.message}`);
    return EX_DATAERR;
  }
}

const { words } = readLine(Deno.args, {}, "file");
if (words.length === 0) complain("name files of histories: deno task judge <file>…");
let status = words.length === 0 ? EX_USAGE : 0;
for (const path of words) status = Math.max(status, await judgeFile(path));
Deno.exit(status);
