import { latin1Text } from "../../store/base/bytes.ts";
import { parseOptions } from "../cli/argv.ts";
import { type CommandLine, obey, print } from "../cli/command_line.ts";
import { ExitCode } from "../cli/exit.ts";
import { helpLines, optionTexts } from "../cli/help.ts";
import { CHECK_OPTIONS } from "../cli/option_table.ts";
import { type LogFormat, writeRefusal } from "../process/log.ts";
import { type ProcessInfo, readProcessInfo } from "../process/info.ts";
import { reasonOf } from "../process/reason.ts";
import { databaseName, type InspectedView } from "../databases/base/backend.ts";
import { type InspectionOptions, inspectViews } from "../databases/open_backend.ts";
import { DEFAULT_TABLE } from "../databases/base/table.ts";
import { toDatabase } from "../rows/row_arguments.ts";
import { textOf } from "../databases/views/parameter_type.ts";
import { unwatchedWarning } from "../databases/views/unwatched.ts";
import { mistakesOf, Views, ViewsError } from "../databases/views/view.ts";
import { keyOf, ViewMapping } from "../databases/views/view_mapping.ts";
import { readViewsFile } from "../databases/views/views_file.ts";

const EXIT_STATUS = [
  "0   a server would start with these views",
  "1   there are mistakes",
  "64  a mistake in the command line",
  "69  the database cannot be reached",
] as const;

/** The subject of `leased views check`. */
interface CheckOptions extends InspectionOptions {
  readonly path: string;
  /** A changed row; null: none is asked about. */
  readonly change: ChangedRow | null;
  readonly logFormat: LogFormat;
}

/** A row of a table, before or after a change. */
interface ChangedRow {
  readonly table: string;
  readonly columns: Readonly<Record<string, unknown>>;
}

/** `leased views check`: prints what the database says of each view, and the keys that a change deletes. */
export function runViews(argv: readonly string[]): Promise<ExitCode> {
  return obey(readViewsCommand(argv, readProcessInfo()), checkViews);
}

function readViewsCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): CommandLine<CheckOptions> {
  const isCheck = argv[0] === "check";
  const { values, errors } = parseOptions(isCheck ? argv.slice(1) : argv, CHECK_OPTIONS, "file");
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  if (!isCheck) errors.unshift("leased views: the commands are check and suggest");
  const [path = "", ...more] = values.file;
  if (path === "" || more.length > 0) errors.push("name one file of views");
  const change = readChange(values.change, errors);
  const database = toDatabase(values.db, errors);
  const names = { ...DEFAULT_TABLE, table: values.table };
  return errors.length > 0
    ? { kind: "refuse", errors, logFormat: values.logFormat }
    : { kind: "run", options: { ...values, database, names, path, change } };
}

/** Reads `price {"product_id": 7}`. */
function readChange(text: string, errors: string[]): ChangedRow | null {
  if (text === "") return null;
  const [, table = "", row = ""] = /^([^{]*?)\s*(\{.*)$/s.exec(text) ?? [];
  try {
    if (table !== "") {
      return { table, columns: JSON.parse(row, asWritten) as ChangedRow["columns"] };
    }
  } catch {
    // The error below has the form.
  }
  errors.push(
    `--change ${JSON.stringify(text)}: must be a table and a row in JSON: price {"product_id": 7}`,
  );
  return null;
}

/** Keeps all digits of a number. */
function asWritten(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === "number" ? context!.source : value;
}

/** Prints what the database says of each view, its mistakes, and the keys that a change deletes. */
async function checkViews(options: CheckOptions): Promise<ExitCode> {
  const { path, change, logFormat } = options;
  let views: Views;
  try {
    views = readViewsFile(path, [""]);
  } catch (error) {
    const isMistake = error instanceof ViewsError;
    writeRefusal(logFormat, "views_refused", reasonOf(error));
    return isMistake ? ExitCode.DIFFERENT : ExitCode.USAGE;
  }
  const tables = new ViewMapping(views).tables;
  if (change !== null && !tables.includes(change.table)) {
    const text = `--change: no view names table ${change.table}: must be ${tables.join(" or ")}`;
    writeRefusal(logFormat, "views_refused", text);
    return ExitCode.USAGE;
  }
  try {
    const { inspected, broken } = await inspectViews(options, views);
    for (const view of inspected) print(textOfView(view));
    for (const { line, text } of mistakesOf(broken)) {
      writeRefusal(logFormat, "views_refused", `${path}:${line}: ${text}`);
    }
    if (change !== null) print(`${changeLine(views, inspected, change)}\n`);
    return broken.length > 0 ? ExitCode.DIFFERENT : ExitCode.OK;
  } catch (error) {
    const name = databaseName(options.database);
    writeRefusal(logFormat, "check_failed", `cannot ask ${name}: ${reasonOf(error)}`);
    return ExitCode.UNAVAILABLE;
  }
}

function textOfView({ view, types, tables, scans }: InspectedView): string {
  const warning = unwatchedWarning(view);
  const parameters = view.keys.names.map((name, index) => `${name} is ${types[index]}`);
  return [
    view.name,
    `  parameters: ${parameters.join(", ") || "none"}`,
    `  reads: ${tables.join(", ") || "no table"}`,
    ...scans.map((table) => `  no index: reads all of ${table}`),
    ...warning === null ? [] : [`  warning: ${warning}`],
    "",
  ].join("\n");
}

/** Says which keys a change of a row deletes. */
function changeLine(
  views: Views,
  inspected: readonly InspectedView[],
  { table, columns }: ChangedRow,
): string {
  const encoder = new TextEncoder();
  const valueOf = (name: string): string | null => {
    const value = columns[name] ?? null;
    // PostgreSQL's log has t and f.
    const text = value === true ? "t" : value === false ? "f" : value;
    return text === null ? null : latin1Text(encoder.encode(String(text)));
  };
  const keys = views.all.flatMap((view) => {
    const found = inspected.find((each) => each.view === view);
    const mapping = new ViewMapping(new Views([view]), undefined, found?.columns);
    return mapping.templatesOf(table).flatMap((template) => {
      const key = keyOf(template, (name) => {
        const text = valueOf(name);
        return text === null ? null : mapping.textInKey(table, name, text);
      });
      return key === null ? [] : [textOf(key.text)! + (key.isPrefix ? "*" : "")];
    });
  });
  return `${table}: deletes ${[...new Set(keys)].join(" ") || "no key"}`;
}

function helpText(version: string): string {
  return [
    `leased ${version}: checks a file of views against the database, and changes nothing`,
    "",
    "Usage: leased views check <file> [options]",
    "       leased views suggest <table> [options]  print a first file; its --help has more",
    ...helpLines(optionTexts(CHECK_OPTIONS)),
    "",
    "Exit status:",
    ...EXIT_STATUS.map((line) => `  ${line}`),
  ].join("\n");
}
