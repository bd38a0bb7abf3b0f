import { writeStderr } from "../log.ts";

/** The statuses the process ends with (sysexits.h, as memcached uses it). */
export const ExitCode = {
  OK: 0,
  /** A command line that cannot be understood. */
  USAGE: 64,
  /** A thread failed: the store may be half changed. */
  SOFTWARE: 70,
  /** An address cannot be listened on, or memory cannot be had. */
  OS_ERROR: 71,
  /** `deno run` does not permit what the options need. */
  NO_PERMISSION: 77,
} as const;

export type ExitCode = typeof ExitCode[keyof typeof ExitCode];

/** Says everything that is wrong with the command line. */
export function refuseUsage(errors: readonly string[]): ExitCode {
  for (const error of errors) writeStderr(`leased: ${error}`);
  writeStderr("leased: --help lists the options");
  return ExitCode.USAGE;
}
