import { configureSync, getLogger, type Logger, type LogRecord } from "@logtape/logtape";

/** How lines are written: for people, or as JSON objects. */
export type LogFormat = "text" | "json";
/** How much an event matters. */
export type LogLevel = "debug" | "info" | "warning" | "error" | "fatal";

const encoder = new TextEncoder();

/**
 * Sets up what the process says: one event a line on stderr, each with a stable name. Never in the
 * command path: workers post their events to the main thread.
 *
 * @param verbosity 0: warnings and what every start says; from 2 on every connection.
 */
export function configureLog(format: LogFormat, verbosity: number): void {
  const write = format === "json" ? jsonLine : textLine;
  configureSync({
    reset: true,
    sinks: { stderr: (record) => writeStderr(write(record)) },
    loggers: [
      {
        category: "leased",
        sinks: ["stderr"],
        lowestLevel: verbosity >= 2 ? "debug" : verbosity === 1 ? "info" : "warning",
      },
      // What is said whatever the verbosity is.
      { category: ["leased", "process"], sinks: ["stderr"], parentSinks: "override" },
      { category: ["logtape", "meta"], sinks: ["stderr"], lowestLevel: "error" },
    ],
  });
}

const connections: Logger = getLogger(["leased", "connections"]);
const process: Logger = getLogger(["leased", "process"]);

/** An event of the process's life: said at every verbosity. */
export function logProcess(
  level: LogLevel,
  event: string,
  message: string,
  processInfo: Readonly<Record<string, unknown>> = {},
): void {
  process[level](escapeTemplate(message), { ...processInfo, event });
}

/** An event of a connection or a listener: said from the level that -v asks for. */
export function logConnection(level: LogLevel, event: string, message: string): void {
  connections[level](escapeTemplate(message), { event });
}

/** The messages are whole sentences: nothing in them is a place for a value. */
function escapeTemplate(message: string): string {
  return message.replaceAll("{", "{{").replaceAll("}", "}}");
}

function textLine(record: LogRecord): string {
  const level = record.level === "info" || record.level === "debug" ? "" : `${record.level}: `;
  return `${timeText(record)} ${level}${record.message.join("")}`;
}

function jsonLine(record: LogRecord): string {
  return JSON.stringify({
    time: timeText(record),
    level: record.level,
    ...record.properties,
    message: record.message.join(""),
  });
}

function timeText(record: LogRecord): string {
  return new Date(record.timestamp).toISOString();
}

/** Writes a line to stderr at once. A closed stderr is no reason to stop serving. */
export function writeStderr(line: string): void {
  try {
    let bytes = encoder.encode(`${line.replaceAll(/\s*\n\s*/g, " ")}\n`);
    while (bytes.length > 0) bytes = bytes.subarray(Deno.stderr.writeSync(bytes));
  } catch {
    // Nobody reads it.
  }
}
