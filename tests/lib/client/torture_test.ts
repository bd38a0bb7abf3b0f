import { assert } from "@std/assert";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { tortureAll } from "./torture.ts";
import { roundsOf } from "../../support/rounds.ts";

/** A short run; `deno task torture` makes long ones. */
const REQUESTS = roundsOf(15_000);

Deno.test("a network that delays, splits, resets, loses and changes replies: none is for a wrong request", () =>
  withSeed(drawSeed(), async (seed) => {
    const { failed } = await tortureAll(REQUESTS, seed);
    assert(failed > 0, "requests have failed sometimes");
  }));
