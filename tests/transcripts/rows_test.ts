import { assert, assertEquals } from "@std/assert";
import { play, TranscriptError } from "../support/sessions/play.ts";
import { NodeSide } from "../support/sessions/node_side.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";
import type { TranscriptCase } from "../support/sessions/transcript.ts";
import { readDocument } from "../support/docs/markdown.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

// Every key is a row. The tables have each case that differs: the beginning of its name, and the line of its first
// reply that differs, counted from its first line. A reason is the first cell of its line in a table of docs/rows.md.

type Expiry = "ignore" | "column";
/** By file. */
type Places = Readonly<Record<string, readonly `${string} +${number}`[]>>;

/** With each way to treat expiry times. */
const ALWAYS: readonly (readonly [reason: string, places: Places])[] = [
  ["`flush_all`", {
    "binary.txt": ["flush +0"],
    "cas_disabled.txt": ["flush_all works +2"],
    "flush.txt": ["flush_all hides +2", "flushed items +3", "add after +2", "flush_all 0 +2", "flush_all n +7", "flush_all 1 hides what +2", "flush_all 1 hides from +0", "flush_all ends +11", "a later +6", "get_flushed counts +2"],
    "locks.txt": ["a locked key outlives flush_all, +5"],
    "noreply.txt": ["flush_all and +2"],
  }],
  ["`incr`, `decr`, `ma`", {
    "arithmetic.txt": ["decr pads +2", "incr wraps +2", "leading zeros, +2"],
    "meta.txt": ["ma counts +8", "ma N +1", "ma with +5"],
  }],
  ["a value that is too large", {
    "binary.txt": ["too large: +5", "appending to +1"],
    "counts.txt": ["cmd_set counts +1"],
    "errors.txt": ["too large +6", "the largest +2", "appending beyond +1"],
    "leases.txt": ["a set +6"],
    "meta.txt": ["a value +2"],
    "noreply.txt": ["an item +2"],
    "small_items.txt": ["-I bounds +2"],
  }],
  ["`me`, `keys`, dumps, `stats sizes`", {
    "binary.txt": ["a packet +0"],
    "locks.txt": ["keys lists +2", "keys leaves +2"],
    "locks_binary.txt": ["keys +1", "keys that +0"],
    "meta.txt": ["me tells +4"],
    "stats.txt": ["stats sizes +3"],
    "tuning.txt": ["lru_crawler metadump +5", "lru_crawler mgdump +3"],
  }],
  ["`set` and others on a held lease", {
    "leases.txt": ["set over a dirty +7", "set on +6", "add on +4", "replace, append and prepend over a dirty +9", "incr and decr over +8", "cas with the right id of a dirty +5", "touch cannot +7", "lock of a +7"],
    "leases_binary.txt": ["Increment with +3"],
    "leases_off.txt": ["a plain +3"],
    "leases_strict.txt": ["without a +0", "with one +1", "in the +0"],
    "meta_leases.txt": ["ms without +2", "ms ME +2", "ms MA with +2", "ma N +1"],
  }],
  ["`mg N` on an absent row", {
    "leases.txt": ["get, gets, gat and gats find a stub, +1", "add over +1", "replace, append and prepend over a stub +1", "incr and decr of +1", "cas with another +9", "touch where +4", "delete of a stub +1", "lock of nothing, +5"],
    "meta.txt": ["N makes an empty +2", "before its +0", "N makes an item +1", "a stub +1"],
    "meta_leases.txt": ["getss, mg +3"],
  }],
  ["`md I`, `md x`, `ms I`", {
    "locks.txt": ["meta commands +4"],
    "meta.txt": ["md I marks +2", "md I T +1", "ma E: +1", "md I again: +1", "ms I with +4", "an older +3", "ms I keeps +3", "md with +3", "md x empties +1", "md x with +1", "md x I +1"],
    "meta_leases.txt": ["md I +1", "md C +4"],
  }],
  ["`E` of `ms` and `ma`", { "meta.txt": ["E chooses +0", "E with +1"], "meta_leases.txt": ["leases take +2"] }],
  ["lock-and-get", { "locks_binary.txt": ["lock and get renews +3", "replace and unlock +0"] }],
  ["`mg h`, `mg l`", { "meta.txt": ["l counts +2"] }],
  ["`ms s` that appends", { "meta.txt": ["ms s tells +1"] }],
  ["`mg k` and `me`, a key in base64", { "meta.txt": ["keys in base64 are +2", "a key in base64 stays +2"] }],
  ["`get <key>+` with a key over 250", { "read.txt": ["an over-long key refuses +2"] }],
];

const REASONS: Readonly<Record<Expiry, typeof ALWAYS>> = {
  ignore: [
    ...ALWAYS,
    ["`ignore`", {
      "binary.txt": ["expiry +3", "an expiry +5"],
      "counts.txt": ["reclaimed counts the +3", "reclaimed counts what +1"],
      "debug.txt": ["debugtime moves +4"],
      "delete_touch.txt": ["touch with +2"],
      "expiry.txt": ["an item +4", "expired items +2", "cas on +3", "touch prolongs +4", "incr and +5", "a large +2", "30 days +4", "get_expired counts +1"],
      "leases.txt": ["get and +9", "set with +3", "a key stays +3", "commands find nothing where a value +3"],
      "leases_binary.txt": ["Set and +9", "GaT, Touch +9"],
      "leases_strict.txt": ["a set +3"],
      "locks.txt": ["touch and +1", "a locked key outlives its +5"],
      "locks_reply.txt": ["every change +3", "the binary +4"],
      "locks_binary.txt": ["lock and get looks +2", "touch and +1"],
      "meta.txt": ["t tells +1", "T in +2", "what is +1", "R tells +2", "ms with flags, +1", "ms MA +1"],
      "numbers.txt": ["an expiry above +3", "a negative +1", "a Unix time before +1"],
      "read.txt": ["gat with +2"],
    }],
  ],
  column: [
    ...ALWAYS,
    ["`touch`, `gat`, `mg T`", {
      "binary.txt": ["touch and +2", "expiry +1", "statistics +7", "what is +2"],
      "cas.txt": ["touch and +4"],
      "leases.txt": ["get, gets, gat and gats find a value +4", "get and +5"],
      "leases_binary.txt": ["Set and +2", "GaT, Touch +2"],
      "locks.txt": ["touch and +3"],
      "locks_yrmcds.txt": ["touch is +1", "a binary +3"],
      "meta.txt": ["t tells +2"],
      "read.txt": ["gats answers +2"],
    }],
    ["`debugtime`", { "debug.txt": ["debugtime moves +12"] }],
    ["`set` and others on a held lease", { "leases.txt": ["a key stays +8"], "leases_strict.txt": ["a set +9"] }],
  ],
};

/** Files of update tokens, which are other commands where there is a database: see tests/lib/rows/serve_test.ts. */
const OTHER_FILES = /^tokens/;

/** A node locks no rows, and a write ends the leases of its clients: see docs/nodes.md. */
const NODE_OTHER_FILES = /^(?:tokens|locks|leases\.|leases_binary|meta_leases)/;

/** A node that joins again has neither rows nor leases. */
const REJOINED_OTHER_FILES = /^(?:tokens|locks|leases|meta_leases)/;
const REJOINED_PLACES: Places = {
  "meta.txt": ["h and l tell +4", "N makes an empty +1", "R tells one +3"],
};
/** Differences of rows that are cached: not of rows as such. */
const REJOINED_SAME: Places = {
  "debug.txt": ["debugtime moves +12"],
  "meta.txt": ["N makes an empty +2"],
  "read.txt": ["an over-long key refuses +2"],
};

/** Of docs/rows.md: they differ, and no transcript shows it. */
const TESTED_ELSEWHERE = ["binary TokenGet, TokenRelease"];

Deno.test("docs/rows.md has each difference, and no other", () => {
  const { text } = readDocument("docs/rows.md");
  const reasons = new Set(Object.values(REASONS).flat().map(([reason]) => reason));
  const rows = /These differ from[^|]*((?:\|.*\n)+)/.exec(text)![1]!.trim().split("\n").slice(2);
  const documented = rows.map((row) => row.split(" | ")[0]!.slice(1).trim());
  for (const reason of TESTED_ELSEWHERE) reasons.add(reason);
  // In other places of the page.
  for (const [reason, line] of [["`flush_all`", "| `flush_all` "], ["`ignore`", "- `ignore`: "]]) {
    assert(reasons.delete(reason!) && text.includes(`\n${line}`));
  }
  assertEquals(new Set(documented), reasons);
});

/** A server whose keys are rows. */
interface Way {
  readonly title: string;
  readonly reasons: typeof ALWAYS;
  /** The other differences, and the similarities. */
  readonly more?: Places;
  readonly except?: Places;
  /** Files that are not played. */
  readonly otherFiles: RegExp;
  readonly make: (options: readonly string[]) => RowsSide;
  /** Happens before each request. */
  readonly before: (side: RowsSide) => void;
}

const originWay = (expiry: Expiry): Way => ({
  title: `--row-expiry ${expiry}`,
  reasons: REASONS[expiry],
  otherFiles: OTHER_FILES,
  make: (options) => new RowsSide(["--row-expiry", expiry, ...options]),
  before: () => {},
});

const NODE: Way = {
  title: "at a node",
  reasons: REASONS.column,
  otherFiles: NODE_OTHER_FILES,
  make: (options) => new NodeSide(["--row-expiry", "column", ...options]),
  before: () => {},
};

const WAYS: readonly Way[] = [
  originWay("ignore"),
  originWay("column"),
  NODE,
  {
    ...NODE,
    title: "at a node that joins again before each request",
    otherFiles: REJOINED_OTHER_FILES,
    more: REJOINED_PLACES,
    except: REJOINED_SAME,
    before: (side) => (side as NodeSide).rejoin(),
  },
];

/**
 * Plays a case.
 *
 * @returns Null, or the error of the first reply that differs.
 */
async function difference(
  options: readonly string[],
  transcriptCase: TranscriptCase,
  { make, before }: Way,
): Promise<TranscriptError | null> {
  const side = make(options);
  try {
    await play(side, transcriptCase, (peer, text) => {
      before(side);
      return peer.send(text);
    });
    return null;
  } catch (error) {
    if (!(error instanceof TranscriptError)) throw error;
    return error;
  } finally {
    side.check();
  }
}

for (const way of WAYS) {
  for (const { name: file, options, cases } of readTranscripts()) {
    if (way.otherFiles.test(file)) continue;
    Deno.test(`${file} with rows, ${way.title}`, async () => {
      const all = [...way.reasons.map(([, places]) => places), way.more ?? {}];
      const known = new Set(all.flatMap((places) => places[file] ?? []));
      for (const place of way.except?.[file] ?? []) assert(known.delete(place), place);
      for (const transcriptCase of cases) {
        const error = await difference(options, transcriptCase, way);
        if (error === null) continue;
        const { name, events } = transcriptCase;
        const place = known.values().find((place) => {
          const [start, offset] = place.split(" +");
          return name.startsWith(start!) && error.line === events[0]!.line + Number(offset);
        });
        assert(place !== undefined, `${name}: ${error.message}`);
        known.delete(place);
      }
      assertEquals([...known], [], "cases that no longer differ there");
    });
  }
}
