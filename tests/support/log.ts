import { configureLog, type LogFormat } from "../../lib/process/log.ts";

/** Runs `act` and returns the lines that it writes to stderr. Text lines lose their time. */
export function loggedBy(format: LogFormat, verbosity: number, act: () => void): string[] {
  const { writeSync } = Deno.stderr;
  const decoder = new TextDecoder();
  let written = "";
  configureLog(format, () => verbosity);
  Deno.stderr.writeSync = (bytes) => {
    written += decoder.decode(bytes);
    return bytes.length;
  };
  try {
    act();
  } finally {
    Deno.stderr.writeSync = writeSync;
  }
  return written.split("\n").slice(0, -1).map((line) => line.replace(/^\d{4}-\S+Z /, ""));
}
