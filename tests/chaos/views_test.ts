import { assert, assertEquals } from "@std/assert";
import { drawSeed, withSeed } from "../support/seed.ts";
import { testDatabases } from "../support/servers/databases.ts";
import { oldReads, runViewsChaos } from "./views.ts";

/** A short run; `deno task chaos` makes long ones. */
const DISTURBANCES = 4;

testDatabases(
  "while nodes, origins and PostgreSQL die, no view is old after its change was applied",
  (database) =>
    withSeed(drawSeed(), async (seed) => {
      const { writes, applied } = await runViewsChaos(database, seed, DISTURBANCES);
      assert(applied > 0 && writes >= applied);
    }),
);

Deno.test("the checker of views finds planted old values, and only those", () => {
  const applied = [{ id: 1, count: 5, at: 10 }, { id: 2, count: 1, at: 20 }];
  const fine = [
    { id: 1, count: 5, began: 11 },
    { id: 1, count: 7, began: 11 },
    { id: 1, count: 4, began: 9 },
    { id: 2, count: null, began: 19 },
    { id: 3, count: null, began: 30 },
  ];
  const old = [{ id: 1, count: 4, began: 11 }, { id: 2, count: null, began: 21 }];
  assertEquals(oldReads(applied, fine), []);
  assertEquals(oldReads(applied, [...fine, ...old]), old);
});
