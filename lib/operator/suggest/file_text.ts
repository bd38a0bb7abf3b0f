import { followCommand } from "../../databases/base/schema.ts";
import type { Preparation } from "../../databases/base/catalog.ts";
import { notesOf, type SuggestedView } from "./suggested_views.ts";

/** Longest line of a query or a comment, where there is a place to break it. */
const WIDTH = 84;

/** Rows that no view of the file has. */
export interface LeftOut {
  readonly subject: string;
  readonly reason: string;
}

/** What a file of views says. */
export interface Suggestion {
  /** The table that was asked for, as SQL names it. */
  readonly table: string;
  readonly views: readonly SuggestedView[];
  readonly leftOut: readonly LeftOut[];
  /** Further tables with rows that belong to a row of the table, as SQL names them. */
  readonly further: readonly string[];
  readonly preparations: readonly Preparation[];
  /** Whether the user of the origin needs rights. */
  readonly hasRights: boolean;
}

/** Returns a file of views, with what is to be done before an origin reads it in comments. */
export function fileText(suggestion: Suggestion): string {
  const { views, leftOut, further } = suggestion;
  const others = [
    ...leftOut.map(({ subject, reason }) => `Left out: ${subject}: ${reason}.`),
    ...further.length === 0 ? [] : [
      `Left out: the rows of ${further.join(", ")}: name one of these tables to have its views.`,
    ],
  ];
  return [
    ...headOf(suggestion),
    "{",
    views.map((view) => indented([...commentOf(view), memberOf(view)].join("\n"))).join(",\n"),
    ...others.map((text) => indented(comment(text))),
    "}",
    "",
  ].join("\n");
}

/** Returns the steps before a start. Only the lines of statements are indented by three: a filter finds them. */
function headOf({ table, views, preparations, hasRights }: Suggestion): string[] {
  const tables = [...new Set(views.map((view) => view.table.sql))].join(", ");
  const statements = preparations.flatMap(({ sql, purpose }) => linesOf(`${sql} -- ${purpose}`));
  const steps = [
    ...statements.length === 0 ? [] : [
      [
        `Execute${hasRights ? ", as the owner of the tables" : ""}:`,
        "",
        ...statements.map((line) => `  ${line}`),
        "",
      ],
    ],
    [`Make what the origin follows: ${followCommand(true)}`],
    ["Check the file: leased views check <file> --db <database>"],
    ...hasRights
      ? [linesOf(`Let the user of the origin read: GRANT SELECT ON ${tables} TO <user>`)]
      : [],
  ];
  const numbered = steps.flatMap(([first, ...more], index) => [`${index + 1}. ${first}`, ...more]);
  const bound =
    "An array has all rows of its key: where these may be many, add LIMIT to its query.";
  return [
    comment(`Views of ${table}: a first file for --views. docs/views.md explains it.`),
    "//",
    ...numbered.map((line) => `// ${line}`.trimEnd()),
    ...views.every(({ isOne }) => isOne) ? [] : ["//", comment(bound)],
  ];
}

/** A quoted name may have line breaks. */
function linesOf(text: string): string[] {
  return text.split(/\r?\n|\r/);
}

function commentOf(view: SuggestedView): string[] {
  const { table, isOne, parents } = view;
  const rows = `${isOne ? "The row" : "All rows"} of ${table.sql}`;
  const text = parents.length === 0
    ? `${rows} with this key.`
    : `${rows} that ${isOne ? "refers" : "refer"} to a row of ${parents.join(" or ")}.`;
  return [text, ...notesOf(view)].map(comment);
}

/** Names the rows of a view. */
export function subjectOf({ table, columns, isOne }: SuggestedView): string {
  const names = columns.map(({ sql }) => sql).join(", ");
  return `${isOne ? "one row" : "the rows"} of ${table.sql} by ${names}`;
}

/** Returns a view as a member of the file's object. */
export function memberOf({ table, name, changed, selected, from, isOne }: SuggestedView): string {
  const lines = [...filled("SELECT", selected), from];
  const short = lines.join(" ");
  const query = short.length <= WIDTH
    ? JSON.stringify(short)
    : `[\n${lines.map((line) => `    ${JSON.stringify(line)}`).join(",\n")}\n  ]`;
  return [
    `${JSON.stringify(name)}: {`,
    `  "query": ${query},`,
    ...isOne ? [] : ['  "value": "array",'],
    `  "changes": { ${JSON.stringify(table.name)}: ${JSON.stringify(changed)} }`,
    "}",
  ].join("\n");
}

/** Returns a list behind a word in lines that are not too long. */
function filled(word: string, items: readonly string[]): string[] {
  const lines: string[] = [];
  let line = word;
  for (const [index, item] of items.entries()) {
    const part = index < items.length - 1 ? `${item},` : item;
    if (line.length + 1 + part.length > WIDTH && line !== word) {
      lines.push(line);
      line = part;
    } else {
      line += ` ${part}`;
    }
  }
  return [...lines, line];
}

/** Returns a text as lines of a comment. */
function comment(text: string): string {
  const lines: string[] = [];
  let line = "//";
  for (const word of text.split(/\s+/)) {
    if (line.length + 1 + word.length > WIDTH && line !== "//") {
      lines.push(line);
      line = "//";
    }
    line += ` ${word}`;
  }
  return [...lines, line].join("\n");
}

function indented(text: string): string {
  return text.split("\n").map((line) => `  ${line}`).join("\n");
}
