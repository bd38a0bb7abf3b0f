import { assertEquals, assertThrows } from "@std/assert";
import { oneOf, OptionError, parseLine, someOf } from "./options.ts";

const DEFAULTS = {
  rounds: 5,
  io: oneOf("portable", "native"),
  json: false,
  only: someOf(["p1", "p16"]),
  memory: [64, 256],
  name: "",
};

function parse(line: string): unknown {
  return parseLine(line.split(" ").filter((word) => word !== ""), DEFAULTS).options;
}

Deno.test("parseLine() gives each option the type of its default", () => {
  const defaults = { ...DEFAULTS, io: "native", only: ["p1", "p16"] };
  assertEquals(parse(""), defaults);
  assertEquals(
    parse("--rounds 1.5 --io=portable --json --only p1,p16 --only p1 --memory 0,1 --name a,b"),
    {
      rounds: 1.5,
      io: "portable",
      json: true,
      only: ["p1", "p16", "p1"],
      memory: [0, 1],
      name: "a,b",
    },
  );
  assertEquals(parse("--rounds 1 --rounds 2"), { ...defaults, rounds: 2 });
});

Deno.test("parseLine() names what it cannot take", () => {
  for (
    const [line, message] of [
      ["--rouds 5", "There is no option --rouds"],
      ["--rounds x", '--rounds is "x", not a number that is 0 or more'],
      ["--rounds=-1", '--rounds is "-1", not a number that is 0 or more'],
      ["--rounds", '--rounds is "", not a number that is 0 or more'],
      ["--io none", '--io is "none", not one of portable, native'],
      ["--only p1,p2", '--only is "p2", not one of p1, p16'],
      ["--memory 64,", '--memory is "", not a number that is 0 or more'],
    ] as const
  ) {
    assertThrows(() => parse(line), OptionError, message);
  }
});

Deno.test("parseLine() keeps the words that are no options", () => {
  const { options, words } = parseLine(["lib", "--rounds", "3", "7", "--json", "store"], DEFAULTS);
  assertEquals(words, ["lib", "7", "store"]);
  assertEquals([options.rounds, options.json], [3, true]);
});
