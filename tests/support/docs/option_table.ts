// Writes the table of options into docs/options.md: `deno task docs`
import { optionTexts } from "../../../lib/cli/help.ts";
import { path } from "../servers/server_process.ts";

const PAGE = path("docs/options.md");

/** docs/options.md with its table made from the program's. */
export function freshOptions(text: string): string {
  return text.replace(
    /(<!-- options -->\n)[^]*?(<!-- \/options -->)/,
    (_all, start: string, end: string) => `${start}\n${optionTable()}\n\n${end}`,
  );
}

export function readOptions(): string {
  return Deno.readTextFileSync(PAGE);
}

function optionTable(): string {
  const rows = optionTexts().map(({ flag, preset, range, meaning }) => [
    `\`${cell(flag)}\``,
    preset === "" ? "" : `\`${cell(preset)}\``,
    flag.includes("|")
      ? ""
      : range.replace(/^an? .*?(?:number|size),? (?:from )?|\(.*\)/g, "").trim(),
    cell(meaning),
  ]);
  return alignedTable([["option", "default", "range", "meaning"], ...rows]);
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

if (import.meta.main) Deno.writeTextFileSync(PAGE, freshOptions(readOptions()));
