import { assert, assertEquals } from "@std/assert";
import { helpText } from "../../../lib/cli/help.ts";
import { EXTENDED_OPTIONS, type OptionRow, OPTIONS } from "../../../lib/cli/option_table.ts";
import { readValue } from "../../../lib/cli/values.ts";

const ROWS: readonly OptionRow[] = [...OPTIONS, ...EXTENDED_OPTIONS];

Deno.test("helpText() names what is implemented, and nothing else", () => {
  const help = helpText("0.1.0");
  for (const [name, , , , , , , state] of OPTIONS) {
    assertEquals(help.includes(`--${name}`), state === "works", name);
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
