import { assert, assertEquals } from "@std/assert";
import { play, TranscriptError } from "../support/sessions/play.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

// Every key is a row. The table has the line of each case's first reply that differs. docs/rows.md has the reasons.

type Expiry = "ignore" | "column";
type Lines = Readonly<Record<string, readonly number[]>>;

/** With each way to treat expiry times. */
const ALWAYS: readonly (readonly [reason: string, lines: Lines])[] = [
  ["flush_all empties the cache, not the table", {
    "binary.txt": [90],
    "cas_disabled.txt": [20],
    "flush.txt": [6, 18, 28, 34, 46, 59, 69, 84, 93, 113],
    "locks.txt": [136],
    "noreply.txt": [30],
  }],
  ["a number is not padded", { "arithmetic.txt": [23, 35, 64], "meta.txt": [264] }],
  ["a value that is too large leaves the row, and is refused by its size first", {
    "binary.txt": [189, 194],
    "counts.txt": [10],
    "errors.txt": [73, 84, 92],
    "leases.txt": [517],
    "meta.txt": [531],
    "noreply.txt": [51],
    "small_items.txt": [6],
  }],
  ["dumps, lists and sizes show cached rows only", {
    "binary.txt": [108],
    "locks.txt": [224, 233],
    "locks_binary.txt": [135, 140],
    "meta.txt": [390],
    "stats.txt": [16],
    "tuning.txt": [92, 103],
  }],
  ["a lease makes no row dirty: nothing cuts its time", {
    "leases.txt": [96, 111, 147, 178, 225, 257, 307, 392],
    "leases_binary.txt": [107],
    "leases_off.txt": [20],
    "meta_leases.txt": [31, 54, 68, 78],
  }],
  ["mg N gives a lease, no placeholder; rows are neither stale nor emptied; E chooses no version", {
    "leases.txt": [41, 151, 202, 241, 285, 294, 341, 381],
    "locks.txt": [64],
    "meta.txt": [69, 75, 80, 98, 107, 112, 119, 130, 138, 226, 232, 241, 249, 328, 343, 363],
    "meta_leases.txt": [91, 105, 115, 124],
  }],
  ["--strict is for items", { "leases_strict.txt": [5, 17, 50] }],
  ["lock and get does not change a row's time", { "locks_binary.txt": [44] }],
  ["RaU needs the lock first", { "locks_binary.txt": [58] }],
  ["the seconds since the last read begin with the read of the database", { "meta.txt": [42] }],
  ["ms s with append tells the length that was sent", { "meta.txt": [188] }],
  ["ma t tells no time", { "meta.txt": [275, 286] }],
  ["the database does not know that a key came in base64", { "meta.txt": [310] }],
  ["values in front of a key that is too long have been sent", { "read.txt": [11] }],
];

const REASONS: Readonly<Record<Expiry, typeof ALWAYS>> = {
  ignore: [
    ...ALWAYS,
    ["expiry times have no effect", {
      "binary.txt": [79, 87],
      "counts.txt": [18, 23],
      "delete_touch.txt": [41],
      "expiry.txt": [8, 13, 25, 32, 52, 63, 70, 79],
      "leases.txt": [29, 102, 120, 415],
      "leases_binary.txt": [85],
      "leases_strict.txt": [41],
      "locks.txt": [76, 128],
      "locks_binary.txt": [49, 97],
      "meta.txt": [49, 60, 64, 87, 163, 194],
      "numbers.txt": [28, 34, 59],
      "read.txt": [46],
    }],
  ],
  column: [
    ...ALWAYS,
    ["a touch is a write: the row gets a version, and a lock stops it", {
      "binary.txt": [67, 77, 102, 199],
      "cas.txt": [61],
      "leases.txt": [17, 25],
      "leases_binary.txt": [78],
      "locks.txt": [78],
      "locks_yrmcds.txt": [13, 32],
      "read.txt": [41],
    }],
    ["mg T has its effect before t tells the time", { "meta.txt": [50] }],
    ["a lease makes no row dirty: nothing cuts its time", { "leases.txt": [125] }],
    ["--strict is for items", { "leases_strict.txt": [47] }],
  ],
};

/** Files of update tokens, which are other commands where there is a database: see tests/lib/rows/serve_test.ts. */
const OTHER_FILES = /^tokens/;

/** Plays a case. Returns the line of the first reply that differs; 0: none does. */
async function differingLine(
  options: readonly string[],
  transcriptCase: ReturnType<typeof readTranscripts>[number]["cases"][number],
  expiry: Expiry,
): Promise<{ line: number; message: string }> {
  const side = new RowsSide(options, expiry);
  try {
    await play(side, transcriptCase);
    return { line: 0, message: "" };
  } catch (error) {
    if (!(error instanceof TranscriptError)) throw error;
    return error;
  } finally {
    side.check();
  }
}

for (const expiry of ["ignore", "column"] as const) {
  for (const { name: file, options, cases } of readTranscripts()) {
    if (OTHER_FILES.test(file)) continue;
    Deno.test(`${file} with rows, --row-expiry ${expiry}`, async () => {
      const known = new Set(REASONS[expiry].flatMap(([, lines]) => lines[file] ?? []));
      for (const transcriptCase of cases) {
        const { line, message } = await differingLine(options, transcriptCase, expiry);
        assert(line === 0 || known.delete(line), `${transcriptCase.name}: ${message}`);
      }
      assertEquals([...known], [], "lines that no longer differ");
    });
  }
}
