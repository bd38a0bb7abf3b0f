import { parseOptions } from "../../cli/argv.ts";
import type { CommandLine } from "../../cli/command_line.ts";
import { helpLines, optionTexts } from "../../cli/help.ts";
import { DOCTOR_OPTIONS } from "../../cli/option_table.ts";
import { threadsOf } from "../../process/info.ts";
import { readTargets, type Targets } from "../targets.ts";

/** The options of `leased doctor`, checked. */
export interface DoctorOptions {
  readonly targets: Targets;
  readonly json: boolean;
  /** The server to be started, where none runs. */
  readonly memoryLimitBytes: number;
  readonly threads: number;
  readonly connLimit: number;
  readonly listenBacklog: number;
}

/** Parses the command line after `leased doctor`. */
export function readDoctorCommand(argv: readonly string[]): CommandLine<DoctorOptions> {
  const { values, errors } = parseOptions(argv, DOCTOR_OPTIONS, "server");
  if (values.help) return { kind: "print", text: HELP };
  const targets = readTargets(values, errors);
  if (errors.length > 0) return { kind: "refuse", errors, logFormat: values.logFormat };
  const threads = threadsOf(values.threads, { processors: navigator.hardwareConcurrency });
  return { kind: "run", options: { ...values, threads, targets } };
}

const HELP = [
  "Usage: leased doctor [server ...] [options]",
  "       A server is host:port, or the path of a Unix socket.",
  "",
  "Looks at this machine, and at running servers. For each fault it prints why it",
  "matters, and a command that mends it.",
  ...helpLines(optionTexts(DOCTOR_OPTIONS)),
  "",
  "Exit status:",
  "  0   no faults",
  "  1   faults",
  "  64  a mistake in the command line",
  "  69  a server cannot be reached",
].join("\n");
