import { parseOptions } from "../../cli/argv.ts";
import type { CommandLine } from "../../cli/command_line.ts";
import { helpLines, optionTexts } from "../../cli/help.ts";
import { DOCTOR_OPTIONS } from "../../cli/option_table.ts";
import { readTargets, type Targets } from "../targets.ts";

/** The options of `leased doctor`, checked. */
export interface DoctorOptions {
  readonly targets: Targets;
  readonly isJson: boolean;
  /** The server to be started, where none runs. */
  readonly memoryBytes: number;
  readonly threads: number;
  readonly connections: number;
  readonly backlog: number;
}

/** Parses the command line after `leased doctor`. */
export function readDoctorCommand(argv: readonly string[]): CommandLine<DoctorOptions> {
  const { values, errors } = parseOptions(argv, DOCTOR_OPTIONS, "server");
  if (values.help) return { kind: "print", text: HELP };
  const targets = readTargets(values, errors);
  if (errors.length > 0) return { kind: "refuse", errors, logFormat: values["log-format"] };
  const options = {
    targets,
    isJson: values.json,
    memoryBytes: values["memory-limit"],
    threads: values.threads,
    connections: values["conn-limit"],
    backlog: values["listen-backlog"],
  };
  return { kind: "run", options };
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
