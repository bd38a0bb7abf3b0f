import { assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import { splitSubcommand } from "../../../lib/cli/subcommand.ts";
import { PROCESS_INFO } from "../../support/command_line.ts";

Deno.test("splitSubcommand() takes help and --version with every subcommand", () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ["", "", ""],
    ["-m 64 proxy", "", "-m 64 proxy"],
    ["proxy --cache h:1", "proxy", "--cache h:1"],
    ["help", "", "--help"],
    ["help proxy", "proxy", "--help"],
    ["help passwd", "passwd", "--help"],
    ["proxy --version", "", "--version"],
    ["audit -V", "", "-V"],
    ["proxy init --version", "", "--version"],
    ["views check --version", "", "--version"],
    ["proxy --db -V", "proxy", "--db -V"],
    ["passwd alice", "passwd", "alice"],
  ];
  for (const [line, subcommand, rest] of cases) {
    const split = splitSubcommand(line.split(" ").filter((word) => word !== ""));
    assertEquals([split.subcommand, split.rest.join(" ")], [subcommand, rest], line);
  }
});

Deno.test("readCommand() names the subcommands when the first word is none", () => {
  const command = readCommand(["prxy", "-m", "5"], PROCESS_INFO);
  assertEquals(command.kind === "refuse" ? command.errors : [], [
    'unknown subcommand "prxy": there are proxy, audit, views, top, doctor, passwd, man, completion and help, and options start with -' +
    "; did you mean proxy?",
  ]);
});
