import { type LogFormat, writeRefusal } from "../process/log.ts";

/** Exit statuses of the process (sysexits.h, as in memcached). */
export const ExitCode = {
  OK: 0,
  /** An audit has found differences, or the doctor faults. */
  DIFFERENT: 1,
  /** The command line has a mistake. */
  USAGE: 64,
  /** Another origin has taken over; or an audit or the doctor cannot reach or understand a server. */
  UNAVAILABLE: 69,
  /** A thread failed, or the check at exit found a fault in the store. */
  SOFTWARE: 70,
  /** The server cannot listen on an address, or cannot start a thread. */
  OS_ERROR: 71,
  /** `deno run` denies a permission that the options need. */
  NO_PERMISSION: 77,
} as const;

export type ExitCode = typeof ExitCode[keyof typeof ExitCode];

/** Writes every mistake of the command line to stderr. */
export function refuseUsage(errors: readonly string[], format: LogFormat): ExitCode {
  for (const error of errors) writeRefusal(format, "usage_error", error);
  if (format === "text") writeRefusal(format, "usage_error", "try --help for the list of options");
  return ExitCode.USAGE;
}
