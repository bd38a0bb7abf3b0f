import { parseOptions } from "../cli/argv.ts";
import { type CommandLine, obey } from "../cli/command_line.ts";
import { ExitCode } from "../cli/exit.ts";
import { helpLines, optionTexts } from "../cli/help.ts";
import { INIT_OPTIONS } from "../cli/option_table.ts";
import { configureLog, type LogFormat, logProcess } from "../process/log.ts";
import { type ProcessInfo, readProcessInfo } from "../process/info.ts";
import { reasonOf } from "../process/reason.ts";
import { handleSignals } from "../process/signals.ts";
import { type Backend, databaseName } from "../databases/base/backend.ts";
import { type DatabaseOptions, openBackend } from "../databases/open_backend.ts";
import { POSTGRES_FOLLOW_END, postgresFollowSchema } from "../databases/postgres/publication.ts";
import { postgresSchema, sqliteSchema } from "../databases/base/schema.ts";
import { followEndOf, followSchemaOf } from "../databases/sqlite/triggers.ts";
import { toDatabaseOptions } from "../rows/row_arguments.ts";
import { Views } from "../databases/views/view.ts";
import { readViewsFile } from "../databases/views/views_file.ts";

/** Matches the errors of PostgreSQL and SQLite about a user who may not create tables. */
const NOT_PERMITTED = /permission denied|must be owner|readonly database/;

/** A right that the origin's user may do without. */
const STATS_OFFER =
  `-- Optional, so that the origin can tell for how long a transaction is open that its start waits for:
-- GRANT pg_read_all_stats TO <the origin's user>;
`;

/** The objects that `init` makes. */
interface InitOptions extends DatabaseOptions {
  /** Whether an origin is to follow the changes of other writers. */
  readonly follow: boolean;
  /** Whether what that needs is taken away again. */
  readonly end: boolean;
  readonly views: Views;
  readonly logFormat: LogFormat;
}

/** `leased rows init`: prints the SQL that makes the tables, or runs it. */
export function runInit(argv: readonly string[]): Promise<ExitCode> {
  return obey(readInitCommand(argv, readProcessInfo()), makeTables);
}

function readInitCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): CommandLine<InitOptions> {
  const { values, errors } = parseOptions(argv, INIT_OPTIONS);
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  const logFormat = values.logFormat;
  if (values.end && values.follow) errors.push("--end: excludes --follow");
  if (values.views !== "" && !values.follow) errors.push("--views: needs --follow");
  const views = values.views === "" ? Views.NONE : viewsOf(values.views, errors);
  const options = {
    ...values,
    ...toDatabaseOptions(values, errors),
    views,
  };
  if (errors.length > 0) return { kind: "refuse", errors, logFormat };
  if (values.run) return { kind: "run", options };
  try {
    return { kind: "print", text: schemaOf(options) };
  } catch (error) {
    const database = databaseName(options.database);
    return {
      kind: "refuse",
      errors: [`cannot write the SQL for ${database}: ${reasonOf(error)}`],
      logFormat,
    };
  }
}

/** Reads the file of views, or adds its mistakes. */
function viewsOf(path: string, errors: string[]): Views {
  try {
    return readViewsFile(path, [""]);
  } catch (error) {
    errors.push(`--views: ${reasonOf(error)}`);
    return Views.NONE;
  }
}

/** Makes the tables that are missing, for a user who may create tables. Changes nothing the second time. */
async function makeTables(options: InitOptions): Promise<ExitCode> {
  configureLog(options.logFormat, () => 0);
  handleSignals((_signal, statusAtExit) => Deno.exit(statusAtExit), () => {});
  const database = databaseName(options.database);
  try {
    const backend = await openBackend(options);
    try {
      const left = options.end ? await endChanges(backend) : null;
      if (left !== null) logProcess("warning", "not_ended", left, { database });
      const lacks = options.follow ? await backend.prepareChanges(options.views) : [];
      for (const lack of lacks) logProcess("warning", "cannot_follow", lack, { database });
    } finally {
      await backend.close();
    }
  } catch (error) {
    const reason = reasonOf(error);
    const advice = NOT_PERMITTED.test(reason) ? "; run init as a user who may create tables" : "";
    const what = options.end ? "end following" : "make the tables in";
    const message = `cannot ${what} ${database}${advice}: ${reason}`;
    logProcess("fatal", "cannot_start", message, { reason });
    return ExitCode.OS_ERROR;
  }
  logProcess("info", "initialized", doneText(options), { database });
  return ExitCode.OK;
}

function doneText({ database, follow, end }: InitOptions): string {
  const name = databaseName(database);
  if (end) return `nothing follows the changes of ${name}; the tables of rows stay`;
  if (!follow) return `the tables are in ${name}`;
  const follows = database.kind === "sqlite" ? "triggers" : "publication";
  return `the tables are in ${name}, with the ${follows} that the origin follows`;
}

/** @returns What is left, with the remedy; null: nothing. @throws An origin is active, whose writes would fail. */
async function endChanges(backend: Backend): Promise<string | null> {
  if (!await backend.lockOrigin()) throw new Error("an origin uses the database: stop it first");
  return await backend.endChanges();
}

/** Returns the SQL that creates the tables, or ends it, to be executed by a user who may create tables. */
function schemaOf({ database, names, follow, end, views }: InitOptions): string {
  const isFile = database.kind === "sqlite";
  if (end) return (isFile ? followEndOf(database.path) : POSTGRES_FOLLOW_END).trimEnd();
  const schema = isFile ? sqliteSchema(names) : postgresSchema(names);
  if (!follow) return schema.trimEnd();
  const more = isFile
    ? followSchemaOf(database.path, names, views)
    : postgresFollowSchema(names, views) + STATS_OFFER;
  return (schema + more).trimEnd();
}

function helpText(version: string): string {
  return [
    `leased ${version}: makes the tables of rows`,
    "",
    "Usage: leased rows init [options]  print the SQL that makes the tables; with --run, run it",
    ...helpLines(optionTexts(INIT_OPTIONS)),
  ].join("\n");
}
