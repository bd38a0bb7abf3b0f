import { assertEquals, assertStringIncludes } from "@std/assert";
import { optionTexts } from "../../../lib/cli/help.ts";
import { completionText, manPage } from "../../../lib/cli/manual.ts";
import { AUDIT_OPTIONS, SERVER_OPTIONS, TOP_OPTIONS } from "../../../lib/cli/option_table.ts";
import { SUBCOMMANDS } from "../../../lib/cli/subcommand.ts";
import { MAIN } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { hasProgram } from "../../support/servers/peers.ts";
import { needs } from "../../support/needs/needs.ts";

/** Runs a program over a text in a file, named by the last argument. */
function output(program: string, args: readonly string[], text: string): string {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, text);
    const { stdout, stderr } = new Deno.Command(program, {
      args: args.map((word) => word.replaceAll("FILE", file)),
      env: { NO_COLOR: "1" },
    }).outputSync();
    return textOf(stdout) + textOf(stderr);
  } finally {
    Deno.removeSync(file);
  }
}

Deno.test("the man page has every subcommand and every option that works", () => {
  const page = manPage("0.1.0");
  for (const [name, , summary] of SUBCOMMANDS) {
    assertStringIncludes(page, `\n.B ${name}\n`, summary);
  }
  for (const groups of [SERVER_OPTIONS, AUDIT_OPTIONS, TOP_OPTIONS]) {
    for (const { flag } of optionTexts(groups)) {
      assertStringIncludes(page, `\n.B ${flag.replaceAll("-", "\\-")}\n`);
    }
  }
});

Deno.test("mandoc finds no error in the man page", needs("mandoc", hasProgram("mandoc")), () => {
  assertEquals(output("mandoc", ["-T", "lint", "-W", "error", "FILE"], manPage("0.1.0")), "");
});

for (const shell of ["bash", "zsh", "fish"]) {
  Deno.test(`${shell} understands its completions`, needs(shell, hasProgram(shell)), () => {
    assertEquals(output(shell, ["-n", "FILE"], completionText(shell)!), "");
  });
}

const CASES: readonly (readonly [line: string, completions: string])[] = [
  ["leased au", "audit"],
  ["leased --io ", "auto native portable"],
  ["leased top --vi", "--view"],
  ["leased top --view th", "threads"],
  ["leased completion ", "bash fish zsh"],
  ["leased --slab-l", "--slab-layout"],
];

Deno.test(
  "bash completes subcommands, options and choices",
  needs("bash", hasProgram("bash")),
  () => {
    const script =
      'source FILE; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _leased; echo "${COMPREPLY[*]}"';
    for (const [line, completions] of CASES) {
      const found = output(
        "bash",
        ["-c", script, "-", ...line.split(" ")],
        completionText("bash")!,
      );
      assertEquals(found.trim().split(" ").sort().join(" "), completions, line);
    }
  },
);

Deno.test(
  "fish completes subcommands, options and choices",
  needs("fish", hasProgram("fish")),
  () => {
    for (const [line, completions] of CASES) {
      const script = `source FILE; complete -C "${line}"`;
      const found = output("fish", ["-c", script], completionText("fish")!);
      const words = found.trim().split("\n").map((each) => each.split("\t")[0]);
      assertEquals(words.sort().join(" "), completions, line);
    }
  },
);

Deno.test("leased man and leased completion need no permission, and refuse other shells", () => {
  const run = (...args: string[]): Deno.CommandOutput =>
    new Deno.Command(Deno.execPath(), { args: ["run", "--no-prompt", MAIN, ...args] }).outputSync();
  assertEquals(run("man").code, 0);
  assertEquals(textOf(run("completion", "fish").stdout), completionText("fish"));
  assertEquals(run("completion", "csh").code, 64);
  const help = run("completion", "--help");
  assertEquals(
    [help.code, textOf(help.stdout), textOf(help.stderr)],
    [0, "usage: leased completion bash|zsh|fish\n", ""],
  );
});
