import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { helpText, optionTexts } from "../../../lib/cli/help.ts";
import {
  AUDIT_OPTIONS,
  CHECK_OPTIONS,
  DOCTOR_OPTIONS,
  INIT_OPTIONS,
  type OptionRow,
  SERVER_OPTIONS,
  SUGGEST_OPTIONS,
  TOP_OPTIONS,
  VIEWS_OPTIONS,
} from "../../../lib/cli/option_table.ts";
import { SUBCOMMANDS } from "../../../lib/cli/subcommand.ts";
import { readValue } from "../../../lib/cli/values.ts";

const TABLES = [
  SERVER_OPTIONS,
  INIT_OPTIONS,
  AUDIT_OPTIONS,
  DOCTOR_OPTIONS,
  TOP_OPTIONS,
  CHECK_OPTIONS,
  SUGGEST_OPTIONS,
  VIEWS_OPTIONS,
];
const ROWS: readonly OptionRow[] = SERVER_OPTIONS.flatMap(([, rows]): readonly OptionRow[] => rows);

Deno.test("helpText() names what is implemented, and nothing else", () => {
  const help = helpText("0.1.0");
  for (const row of ROWS) {
    const [name] = row;
    const listed = help.includes(`--${name}=`) || help.includes(`--${name} `);
    assertEquals(listed, row[8] === undefined, name);
    const word = `-o ${name.replaceAll("-", "_")}`;
    if (row[1] === "-o") assertEquals(help.replaceAll(/\s+/g, " ").includes(word), listed, word);
  }
});

Deno.test("every command has each name and letter once, and defaults that it would accept", () => {
  for (const table of TABLES) {
    const rows = table.flatMap(([, group]): readonly OptionRow[] => group);
    const names = rows.map((row) => row[0]);
    assertEquals(new Set(names).size, names.length);
    const letters = rows.map((row) => row[1]).filter((letter) => /^\w$/.test(letter));
    assertEquals(new Set(letters).size, letters.length);
    for (const row of rows) {
      const [name, , kind, , least, most, preset, meaning] = row;
      assert(meaning !== "", name);
      assertEquals(Number.isNaN(least), Number.isNaN(most), name);
      if (kind === "switch" || kind === "count") assert(preset === "" || preset === "on", name);
      else if (preset !== "") readValue(row, preset);
    }
  }
});

Deno.test("helpText() has a line for every subcommand", () => {
  for (const [name, , summary] of SUBCOMMANDS) {
    const line = helpText("0.1.0").split("\n").find((each) => each.startsWith(`  ${name} `));
    assert(line?.endsWith(`  ${summary}`), name);
  }
});

Deno.test("helpText() fits 80 columns", () => {
  const wide = helpText("0.1.0").split("\n").filter((line) => line.length > 80);
  assertEquals(wide, []);
});

Deno.test("helpText() shows every implemented option once, in its group, with its default", () => {
  const help = helpText("0.1.0");
  let at = 0;
  for (const { group, flag } of optionTexts(SERVER_OPTIONS)) {
    const next = help.indexOf(flag, at);
    assert(next > at, `${flag} in ${group}`);
    at = next;
  }
  assertStringIncludes(help, "\nMemory:\n  -m, --memory-limit=<MiB> ");
  assertStringIncludes(
    help.replaceAll(/\s+/g, " "),
    "1m to 15g; a bare number is in MiB (default: 64m)",
  );
});
