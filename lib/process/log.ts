import { configureSync, getLogger, type Logger, type LogRecord } from "@logtape/logtape";
import { controlsEscaped } from "./reason.ts";

/** The format of log lines: text for people, or one JSON object per line. */
export type LogFormat = "text" | "json";
/** The severity of an event. */
type LogLevel = "trace" | "debug" | "info" | "warning" | "error" | "fatal";
/** Facts of an event by name: members of its JSON object. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The least verbosity (number of -v) at which an event of a connection is logged, by its level. */
const VERBOSITY_OF_LEVEL: Readonly<Record<LogLevel, number>> = {
  trace: 3,
  debug: 2,
  info: 1,
  warning: 0,
  error: 0,
  fatal: 0,
};

/** Text lines of other levels do not name their level. */
const LEVELS_SHOWN: ReadonlySet<string> = new Set(["warning", "error", "fatal"]);

const encoder = new TextEncoder();
let currentVerbosity: () => number = () => 0;

/**
 * Sets up the log: one event per line on stderr, each with a stable name. Only the main thread logs; workers post
 * their events to it.
 *
 * @param verbosity Returns the number of -v, which the `verbosity` command may change.
 */
export function configureLog(format: LogFormat, verbosity: () => number): void {
  currentVerbosity = verbosity;
  const write = format === "json" ? jsonLine : textLine;
  configureSync({
    reset: true,
    sinks: { stderr: (record) => writeStderr(write(record)) },
    loggers: [
      { category: "leased", sinks: ["stderr"], lowestLevel: "trace" },
      { category: ["logtape", "meta"], sinks: ["stderr"], lowestLevel: "error" },
    ],
  });
}

const logger: Logger = getLogger(["leased"]);

/** Logs an event of the process, at every verbosity. */
export function logProcess(
  level: LogLevel,
  event: string,
  message: string,
  fields: LogFields = {},
): void {
  logger[level](escapeTemplate(message), { event, ...fields });
}

/** Logs an event of a connection or a listener, if the verbosity includes its level. */
export function logConnection(
  level: LogLevel,
  event: string,
  message: string,
  fields: LogFields = {},
): void {
  if (currentVerbosity() >= VERBOSITY_OF_LEVEL[level]) logProcess(level, event, message, fields);
}

/** Writes an error that ends the process before there is a log: `leased: message`, or a JSON object. */
export function writeRefusal(
  format: LogFormat,
  event: string,
  message: string,
  fields: LogFields = {},
): void {
  writeStderr(
    format === "json"
      ? jsonText({ time: timeText(Date.now()), level: "fatal", event, ...fields, message })
      : `leased: ${message}`,
  );
}

/** Escapes braces, which the library would take for placeholders. */
function escapeTemplate(message: string): string {
  return message.replaceAll("{", "{{").replaceAll("}", "}}");
}

function textLine(record: LogRecord): string {
  const level = LEVELS_SHOWN.has(record.level) ? `${record.level}: ` : "";
  return `${timeText(record.timestamp)} ${level}${record.message.join("")}`;
}

function jsonLine(record: LogRecord): string {
  return jsonText({
    time: timeText(record.timestamp),
    level: record.level,
    ...record.properties,
    message: record.message.join(""),
  });
}

/** Returns the object in JSON; control characters that may stand in it are escaped, too. */
function jsonText(object: object): string {
  return JSON.stringify(object).replace(
    /[\x7f-\x9f]/g,
    (control) => `\\u00${control.charCodeAt(0).toString(16)}`,
  );
}

function timeText(unixMs: number): string {
  return new Date(unixMs).toISOString();
}

/** Writes a line to stderr, synchronously: line ends become spaces. Ignores a closed stderr. */
export function writeStderr(line: string): void {
  try {
    let bytes = encoder.encode(`${controlsEscaped(line.replaceAll(/\s*\n\s*/g, " "))}\n`);
    while (bytes.length > 0) bytes = bytes.subarray(Deno.stderr.writeSync(bytes));
  } catch {
    // The reader of stderr is gone.
  }
}
