// Writes the parts of README.md that come from tables: `deno run --allow-read --allow-write tests/support/readme.ts`
import { optionTexts } from "../../lib/cli/help.ts";
import { path } from "./servers/server_process.ts";

const README = path("README.md");

/** README.md with its tables made anew. */
export function freshReadme(text: string): string {
  return text.replace(
    /(<!-- options -->\n)[^]*?(<!-- \/options -->)/,
    (_all, start: string, end: string) => `${start}\n${optionTable()}\n\n${end}`,
  );
}

export function readReadme(): string {
  return Deno.readTextFileSync(README);
}

function optionTable(): string {
  const rows = optionTexts().map(({ flag, preset, meaning }) => [
    `\`${cell(flag)}\``,
    preset === "" ? "" : `\`${cell(preset)}\``,
    cell(meaning),
  ]);
  return alignedTable([["option", "default", "meaning"], ...rows]);
}

/** A table as the formatter leaves it. */
function alignedTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_cell, column) =>
    Math.max(...rows.map((row) => row[column]!.length))
  );
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const [head, ...body] = rows.map((row) =>
    line(row.map((text, column) => text.padEnd(widths[column]!)))
  );
  return [head, line(widths.map((width) => "-".repeat(width))), ...body].join("\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("'*'", "`*`");
}

if (import.meta.main) Deno.writeTextFileSync(README, freshReadme(readReadme()));
