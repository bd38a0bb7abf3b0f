// `deno task witness [TEXT…] [--seconds N]`: plants faults of rows, nodes, log and views in a copy of the source, one
// at a time, and starts real servers there, whose meters and canaries are to see each within the time (60 s by
// default). Each TEXT selects the faults whose file or description contains it. Status 1: one was not seen.
import { Copy } from "../mutate/copy.ts";
import { type Fault, plant } from "../mutate/fault.ts";
import { readLine } from "../support/options.ts";
import { PLANTED } from "../simulator/planted.ts";

/** Rooms that serve rows, nodes, log and views, and where their faults show first. */
const ROOMS: readonly (readonly [folder: string, where: readonly string[]])[] = [
  ["lib/databases/postgres/", ["views PostgreSQL", "rows PostgreSQL"]],
  ["lib/databases/sqlite/", ["views SQLite", "rows SQLite"]],
  ["lib/rows/follow/", ["views PostgreSQL", "views SQLite"]],
  ["lib/rows/flows/log_flow", ["views PostgreSQL", "views SQLite"]],
  ["lib/rows/", ["rows SQLite", "rows PostgreSQL", "views PostgreSQL"]],
  ["store/operations/row", ["rows SQLite", "rows PostgreSQL", "views PostgreSQL"]],
  ["store/row_cache", ["rows SQLite", "rows PostgreSQL", "views PostgreSQL"]],
];
/** A line of a canary, or of a meter. */
const FINDING = /^(?:stale|lost) |a cached value is/;
/** What starting servers, and ending them, may take beside. */
const MORE_MS = 60_000;

const { options: { seconds: limitSec }, words } = readLine(Deno.args, { seconds: 60 }, "text");

/** Where a fault shows; empty: nowhere in rows. */
function placesOf({ file }: Fault): readonly string[] {
  return ROOMS.find(([folder]) => file.startsWith(folder))?.[1] ?? [];
}

/** @returns The line that tells of the fault, and where; null: nobody has seen it. */
async function seenIn(fault: Fault, copy: Copy): Promise<string | null> {
  const target = `${copy.folder}/${fault.file}`;
  const text = await Deno.readTextFile(target);
  await Deno.writeTextFile(target, plant(fault, text));
  try {
    for (const place of placesOf(fault)) {
      const args = [...place.split(" "), `${limitSec}`];
      const beganMs = performance.now();
      const { code, output } = await copy.program(
        ...["tests/chaos/seek.ts", args, limitSec * 1000 + MORE_MS] as const,
      );
      const seconds = Math.round((performance.now() - beganMs) / 1000);
      const line = output.split("\n").find((each) => FINDING.test(each));
      if (code === 1 && line !== undefined) return `${place}, ${seconds} s: ${line}`;
    }
    return null;
  } finally {
    await Deno.writeTextFile(target, text);
  }
}

let missed = 0;
await using copy = await Copy.make();
for (const fault of PLANTED) {
  if (placesOf(fault).length === 0) continue;
  const name = `${fault.file}: ${fault.fault}`;
  if (!words.every((word) => name.includes(word))) continue;
  const seen = await seenIn(fault, copy);
  if (seen === null) missed++;
  // deno-lint-ignore no-console -- the result
  console.log(`${seen === null ? "MISSED" : "seen  "} ${name}${seen === null ? "" : `: ${seen}`}`);
}
Deno.exitCode = missed > 0 ? 1 : 0;
