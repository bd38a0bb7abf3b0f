import { parseOptions } from "../../cli/argv.ts";
import { type CommandLine, obey, print } from "../../cli/command_line.ts";
import { ExitCode } from "../../cli/exit.ts";
import { helpLines, optionTexts } from "../../cli/help.ts";
import { SUGGEST_OPTIONS } from "../../cli/option_table.ts";
import { didYouMean } from "../../cli/values.ts";
import { databaseName } from "../../databases/base/backend.ts";
import type { Catalog, CatalogTable, Preparation } from "../../databases/base/catalog.ts";
import { DEFAULT_TABLE } from "../../databases/base/table.ts";
import { type InspectionOptions, openCatalog } from "../../databases/open_backend.ts";
import { parseViews } from "../../databases/views/views_file.ts";
import { type LogFormat, writeRefusal } from "../../process/log.ts";
import { type ProcessInfo, readProcessInfo } from "../../process/info.ts";
import { reasonOf } from "../../process/reason.ts";
import { toDatabase } from "../../rows/row_arguments.ts";
import { fileText, type LeftOut, memberOf, subjectOf } from "./file_text.ts";
import {
  rowsBelongingTo,
  type RowsBy,
  rowsOf,
  type SuggestedView,
  suggestedViews,
  withoutTwice,
} from "./suggested_views.ts";

/** Views of rows that belong to a row of the table: a table that all others name has not all of them. */
const BELONGING_MAX = 8;
/** Tables that an error names. */
const NAMES_MAX = 20;

const EXIT_STATUS = [
  "0   the file is printed",
  "1   no view of the table can be served",
  "64  a mistake in the command line, also a table that is not there",
  "69  the database cannot be reached",
] as const;

/** The subject of `leased views suggest`. */
interface SuggestOptions extends InspectionOptions {
  /** "": it was not named. */
  readonly table: string;
  readonly logFormat: LogFormat;
}

/** `leased views suggest`: prints a file of views for a table of the database. */
export function runSuggest(argv: readonly string[]): Promise<ExitCode> {
  return obey(readSuggestCommand(argv, readProcessInfo()), suggest);
}

function readSuggestCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): CommandLine<SuggestOptions> {
  const { values, errors } = parseOptions(argv, SUGGEST_OPTIONS, "of");
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  const [table = "", ...more] = values.of;
  if (more.length > 0) errors.push(`name one table, not ${values.of.join(" and ")}`);
  const database = toDatabase(values.db, errors);
  const names = { ...DEFAULT_TABLE, table: values.table };
  return errors.length > 0
    ? { kind: "refuse", errors, logFormat: values.logFormat }
    : { kind: "run", options: { ...values, database, names, table } };
}

/** Why no file is printed. */
class Refusal extends Error {
  readonly status: ExitCode;

  constructor(status: ExitCode, message: string) {
    super(message);
    this.status = status;
  }
}

async function suggest(options: SuggestOptions): Promise<ExitCode> {
  const { database, logFormat } = options;
  const name = databaseName(database);
  try {
    const catalog = await openCatalog(options);
    try {
      const table = await findTable(catalog, options.table, name);
      print(await textFor(table, database.kind === "postgres"));
      return ExitCode.OK;
    } finally {
      await catalog.close();
    }
  } catch (error) {
    if (error instanceof Refusal) {
      writeRefusal(logFormat, "suggest_refused", error.message);
      return error.status;
    }
    writeRefusal(logFormat, "suggest_failed", `cannot ask ${name}: ${reasonOf(error)}`);
    return ExitCode.UNAVAILABLE;
  }
}

/** @throws Refusal */
async function findTable(catalog: Catalog, name: string, database: string): Promise<CatalogTable> {
  const table = name === "" ? null : await catalog.find(name);
  if (table?.refusal === null) return table;
  if (table !== null) throw new Refusal(ExitCode.DIFFERENT, table.refusal);
  const names = await catalog.names();
  const more = names.length - NAMES_MAX;
  const list = names.slice(0, NAMES_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const tables = names.length === 0 ? `${database} has no table` : `${database} has ${list}`;
  const mistake = name === ""
    ? `name a table: ${tables}`
    : `there is no table ${name}: ${tables}${didYouMean(name, names)}`;
  throw new Refusal(ExitCode.USAGE, mistake);
}

/** @throws Refusal */
async function textFor(table: CatalogTable, hasRights: boolean): Promise<string> {
  const own = withoutTwice(rowsOf(table));
  const children = await table.referring();
  const all = withoutTwice([...own, ...rowsBelongingTo(table, children)]);
  const wanted = all.slice(0, own.length + BELONGING_MAX);
  const further = new Set(all.slice(wanted.length).map((rows) => rows.table.sql));
  const views: SuggestedView[] = [];
  const leftOut: LeftOut[] = children.flatMap(({ sql, refusal }) =>
    refusal === null ? [] : [{ subject: `the rows of ${sql}`, reason: refusal }]
  );
  for (const view of suggestedViews(wanted)) {
    const reason = await refusalOf(view);
    if (reason === null) views.push(view);
    else leftOut.push({ subject: subjectOf(view), reason });
  }
  if (views.length === 0) throw new Refusal(ExitCode.DIFFERENT, noViewText(table, leftOut));
  return fileText({
    table: table.sql,
    views,
    leftOut,
    further: [...further],
    preparations: preparationsOf(views),
    hasRights,
  });
}

async function refusalOf(view: SuggestedView): Promise<string | null> {
  const { all: [parsed] } = parseViews(`{${memberOf(view)}}`, "", [""]);
  return await view.table.refusalOf(parsed!, view.columns);
}

function noViewText({ sql }: CatalogTable, leftOut: readonly LeftOut[]): string {
  if (leftOut.length > 0) {
    return `no view of ${sql} can be served: ${
      [...new Set(leftOut.map(({ reason }) => reason))].join("; ")
    }`;
  }
  return `table ${sql} has no primary key, no unique one of columns that are NOT NULL, and no foreign key: ` +
    "write its views by hand";
}

function preparationsOf(views: readonly RowsBy[]): Preparation[] {
  const byTable = Map.groupBy(views, ({ table }) => table.name);
  return [...byTable.values()].flatMap((same) =>
    same[0]!.table.preparations(same.map(({ columns }) => columns))
  );
}

function helpText(version: string): string {
  return [
    `leased ${version}: prints a first file of views for a table, and changes nothing`,
    "",
    "Usage: leased views suggest <table> [options]",
    ...helpLines(optionTexts(SUGGEST_OPTIONS)),
    "",
    "Exit status:",
    ...EXIT_STATUS.map((line) => `  ${line}`),
  ].join("\n");
}
