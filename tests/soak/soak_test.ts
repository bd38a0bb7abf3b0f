import { assert } from "@std/assert";
import { drawSeed, withSeed } from "../support/seed.ts";
import { testDatabases } from "../support/servers/databases.ts";
import { type Line, Soak } from "./soak.ts";

// A short one. Longer ones are `deno task soak`.

const SEGMENT_MS = 2000;

testDatabases(
  "a soak: no value is old or lost in segments that follow each other",
  (database) =>
    withSeed(drawSeed(), async (seed) => {
      const lines: Line[] = [];
      await using soak = new Soak(database, {
        ...{ seed, segmentMs: SEGMENT_MS, segments: 2, disturbMs: SEGMENT_MS / 2 },
        report: (line) => lines.push(line),
      });
      await soak.run();
      assert(lines.every(({ judged }) => judged.reads > 0), "every segment has reads");
    }),
  ["SQLite"],
);
