import { assert } from "@std/assert";
import { play } from "../support/sessions/play.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

// Every key is a row, and expiry times have no effect. Cases that differ are listed with the reason.

const EXPIRY = "rows ignore expiry times";
const FLUSH = "flush_all empties caches, not rows";
const NUMBERS = "a row's number is not padded";
const STUBS = "rows have no placeholders, no stale values, and ids of their own";
const TOO_LARGE = "a value that is too large leaves the row, and is refused by its size in every mode";
const DUMPS = "dumps, lists and sizes show cached rows only";
const LEASES = "writes of rows go to the database: no lease makes them dirty, or cuts their time";
const TOKENS = "update tokens of rows are the database thread's";

/** Files that are about something else. */
const OTHER_FILES: Readonly<Record<string, string>> = {
  "expiry.txt": EXPIRY,
  "flush.txt": FLUSH,
  "counts.txt": "the first read of a row is a miss",
  "leases.txt": LEASES,
  "leases_binary.txt": LEASES,
  "leases_off.txt": LEASES,
  "leases_small.txt": LEASES,
  "leases_strict.txt": LEASES,
  "meta_leases.txt": LEASES,
  "tokens.txt": TOKENS,
  "tokens_binary.txt": TOKENS,
  "tokens_meta.txt": TOKENS,
  "tokens_off.txt": TOKENS,
  "tokens_small.txt": TOKENS,
  "tokens_yrmcds.txt": TOKENS,
};

/** By the beginning of a case's name. */
const DIFFERENCES: readonly (readonly [file: string, cases: readonly string[], reason: string])[] =
  [
    ["arithmetic.txt", ["decr pads", "incr wraps", "leading zeros"], NUMBERS],
    ["binary.txt", ["incr and decr make", "expiry", "an expiry time"], EXPIRY],
    ["binary.txt", ["flush"], FLUSH],
    ["binary.txt", ["statistics", "a packet for every size"], DUMPS],
    ["binary.txt", ["too large", "appending to more"], TOO_LARGE],
    ["cas_disabled.txt", ["flush_all"], FLUSH],
    ["delete_touch.txt", ["touch with a past time"], EXPIRY],
    ["errors.txt", ["too large for the cache", "the largest", "appending beyond"], TOO_LARGE],
    ["locks.txt", ["meta commands by others"], STUBS],
    ["locks.txt", ["touch and gat", "a locked key outlives its"], EXPIRY],
    ["locks.txt", ["a locked key outlives flush_all"], FLUSH],
    ["locks.txt", ["keys lists", "keys leaves out"], DUMPS],
    ["locks_binary.txt", ["lock and get renews", "lock and get looks", "touch and GaT"], EXPIRY],
    ["locks_binary.txt", ["replace and unlock"], "a row that is not locked may be absent"],
    ["locks_binary.txt", ["keys"], DUMPS],
    ["meta.txt", ["t tells", "T in the past", "what is over", "ms with flags", "ms MA"], EXPIRY],
    ["meta.txt", ["ma N makes", "ma with unique", "me tells", "l counts"], EXPIRY],
    ["meta.txt", ["N makes", "before its turn", "R tells", "md ", "ms I", "a stub", "E ", "ma E"], STUBS],
    ["meta.txt", ["keys in base64 are"], "the database does not know how a key came"],
    ["meta.txt", ["ms s tells"], "the size of an appended row is not known here"],
    ["meta.txt", ["ma counts"], NUMBERS],
    ["meta.txt", ["a value that is too large"], TOO_LARGE],
    ["noreply.txt", ["flush_all"], FLUSH],
    ["noreply.txt", ["an item that is too large"], TOO_LARGE],
    ["numbers.txt", ["an expiry", "a negative expiry", "a Unix time"], EXPIRY],
    ["read.txt", ["an over-long key"], "the values in front of it have been sent"],
    ["read.txt", ["gat with a past"], EXPIRY],
    ["small_items.txt", ["-I bounds"], TOO_LARGE],
    ["stats.txt", ["stats sizes", "stats detail"], DUMPS],
    ["tuning.txt", ["lru_crawler m"], DUMPS],
  ];

function differs(file: string, name: string): boolean {
  return file in OTHER_FILES ||
    DIFFERENCES.some(([other, cases]) =>
      other === file && cases.some((start) => name.startsWith(start))
    );
}

for (const { name: file, options, cases } of readTranscripts()) {
  for (const transcriptCase of cases) {
    const { name } = transcriptCase;
    Deno.test(`${file}: ${name}, with rows`, async () => {
      const side = new RowsSide(options);
      const isPlayed = await play(side, transcriptCase).then(() => true, (error) => {
        if (!differs(file, name)) throw error;
        return false;
      });
      assert(isPlayed || differs(file, name));
      side.check();
    });
  }
}
