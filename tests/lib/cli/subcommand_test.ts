import { assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import { splitSubcommand } from "../../../lib/cli/subcommand.ts";
import { PROCESS_INFO } from "../../support/command_line.ts";

Deno.test("splitSubcommand() takes help and --version with every subcommand", () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ["", "", ""],
    ["-m 64 rows", "", "-m 64 rows"],
    ["rows --rows h:1", "rows", "--rows h:1"],
    ["help", "", "--help"],
    ["help rows", "rows", "--help"],
    ["help passwd", "passwd", "--help"],
    ["rows --version", "", "--version"],
    ["audit -V", "", "-V"],
    ["rows init --version", "", "--version"],
    ["proxy init --run", "rows", "init --run"],
    ["views check --version", "", "--version"],
    ["rows --db -V", "rows", "--db -V"],
    ["passwd alice", "passwd", "alice"],
  ];
  for (const [line, subcommand, rest] of cases) {
    const split = splitSubcommand(line.split(" ").filter((word) => word !== ""));
    assertEquals([split.subcommand, split.rest.join(" ")], [subcommand, rest], line);
  }
});

Deno.test("readCommand() names the subcommands when the first word is none", () => {
  const command = readCommand(["rws", "-m", "5"], PROCESS_INFO);
  assertEquals(command.kind === "refuse" ? command.errors : [], [
    'unknown subcommand "rws": there are rows, audit, views, top, doctor, passwd, man, completion and help, and options start with -' +
    "; did you mean rows?",
  ]);
});
