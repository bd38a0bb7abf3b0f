// Writes the tables of options into docs/options.md: `deno task docs`
import { type OptionText, optionTexts } from "../../../lib/cli/help.ts";
import { type OptionGroup, SERVER_OPTIONS } from "../../../lib/cli/option_table.ts";
import { path } from "../servers/server_process.ts";

/** A document with a table of options between two comments. */
export interface OptionPage {
  readonly name: string;
  readonly groups: readonly OptionGroup[];
}

export const OPTION_PAGES: readonly OptionPage[] = [
  { name: "docs/options.md", groups: SERVER_OPTIONS },
];

/** A page's text with its table made from the program's. */
export function freshOptions(text: string, { groups }: OptionPage): string {
  return text.replace(
    /(<!-- options -->\n)[^]*?(<!-- \/options -->)/,
    (_all, start: string, end: string) => `${start}\n${optionTable(optionTexts(groups))}\n\n${end}`,
  );
}

export function readOptions({ name }: OptionPage): string {
  return Deno.readTextFileSync(path(name));
}

function optionTable(texts: readonly OptionText[]): string {
  const rows = texts.map(({ flag, word, preset, range, meaning }) => [
    `\`${cell(flag)}\`` + (word === "" ? "" : `, \`${word}\``),
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

if (import.meta.main) {
  for (const page of OPTION_PAGES) {
    Deno.writeTextFileSync(path(page.name), freshOptions(readOptions(page), page));
  }
}
