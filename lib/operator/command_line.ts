import { ExitCode, refuseUsage } from "../cli/exit.ts";
import type { LogFormat } from "../log.ts";
import { print } from "./output.ts";

/** The action that the command line of a subcommand asks for. */
export type CommandLine<Options> =
  | { readonly kind: "print"; readonly text: string }
  | { readonly kind: "refuse"; readonly errors: readonly string[]; readonly logFormat: LogFormat }
  | { readonly kind: "run"; readonly options: Options };

/** Does what a command line asks for. */
export async function obey<Options>(
  command: CommandLine<Options>,
  run: (options: Options) => Promise<ExitCode>,
): Promise<ExitCode> {
  if (command.kind === "run") return await run(command.options);
  if (command.kind === "refuse") return refuseUsage(command.errors, command.logFormat);
  print(`${command.text}\n`);
  return ExitCode.OK;
}
