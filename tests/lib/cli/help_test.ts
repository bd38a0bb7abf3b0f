import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { helpText, optionTexts } from "../../../lib/cli/help.ts";
import {
  EXTENDED_OPTIONS,
  OPTION_GROUPS,
  type OptionRow,
  OPTIONS,
} from "../../../lib/cli/option_table.ts";
import { readValue } from "../../../lib/cli/values.ts";

const ROWS: readonly OptionRow[] = [...OPTIONS, ...EXTENDED_OPTIONS];

Deno.test("helpText() names what is implemented, and nothing else", () => {
  const help = helpText("0.1.0");
  for (const [name, , , , , , , state] of OPTIONS) {
    // The note below the list names one that is not implemented.
    const listed = help.includes(`--${name}=`) || help.includes(`--${name} `);
    assertEquals(listed && name !== "memory-file", state === "works", name);
  }
  for (const [name, , , , , , , state] of EXTENDED_OPTIONS) {
    assertEquals(help.includes(`-o ${name}`), state === "works", name);
  }
});

Deno.test("OPTIONS has each name and letter once, and defaults that it would accept", () => {
  const names = ROWS.map((row) => row[0]);
  assertEquals(new Set(names).size, names.length);
  const letters = ROWS.map((row) => row[1]).filter((letter) => letter !== "");
  assertEquals(new Set(letters).size, letters.length);
  for (const row of ROWS) {
    const [name, , kind, , least, most, preset, , meaning] = row;
    assert(meaning !== "", name);
    assertEquals(Number.isNaN(least), Number.isNaN(most), name);
    if (kind === "switch" || kind === "count") assert(preset === "" || preset === "on", name);
    else if (preset !== "") readValue(row, preset);
  }
});

Deno.test("helpText() fits 80 columns", () => {
  const wide = helpText("0.1.0").split("\n").filter((line) => line.length > 80);
  assertEquals(wide, []);
});

Deno.test("helpText() shows every implemented option once, in its group, with its default", () => {
  const help = helpText("0.1.0");
  const grouped = OPTION_GROUPS.flatMap(([, names]) => names);
  const works = OPTIONS.filter((row) => row[7] === "works").map((row): string => row[0]);
  assertEquals(grouped.toSorted(), works.toSorted());
  let at = 0;
  for (const { group, flag } of optionTexts()) {
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
