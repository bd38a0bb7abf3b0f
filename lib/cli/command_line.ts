import type { LogFormat } from "../process/log.ts";
import { ExitCode, refuseUsage } from "./exit.ts";

const ENCODER = new TextEncoder();

/** The action that a command line asks for. */
export type CommandLine<Options> =
  | { readonly kind: "print"; readonly text: string }
  | { readonly kind: "refuse"; readonly errors: readonly string[]; readonly logFormat: LogFormat }
  | { readonly kind: "run"; readonly options: Options };

/** Prints the text of a command line, refuses its mistakes, or runs it. */
export async function obey<Options>(
  command: CommandLine<Options>,
  run: (options: Options) => Promise<ExitCode>,
): Promise<ExitCode> {
  if (command.kind === "run") return await run(command.options);
  if (command.kind === "refuse") return refuseUsage(command.errors, command.logFormat);
  print(`${command.text}\n`);
  return ExitCode.OK;
}

/** Writes to stdout, synchronously. @returns False when the reader of stdout is gone. */
export function print(text: string): boolean {
  try {
    for (let bytes = ENCODER.encode(text); bytes.length > 0;) {
      bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
    }
    return true;
  } catch {
    return false;
  }
}
