import { assert } from "@std/assert";
import { drawSeed, withSeed } from "../support/seed.ts";
import { testDatabases } from "../support/servers/databases.ts";
import { runNodesChaos } from "./nodes.ts";

/** A short run; `deno task chaos` makes long ones. */
const DISTURBANCES = 6;

testDatabases(
  "while nodes and their origins die and stop, no read at a node is stale",
  (database) =>
    withSeed(drawSeed(), async (seed) => {
      const { writes, commits } = await runNodesChaos(database, seed, DISTURBANCES);
      assert(commits >= writes);
    }),
);
