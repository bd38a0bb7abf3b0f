import { readCommand } from "../../lib/cli/command.ts";
import type { ServerOptions } from "../../lib/cli/options.ts";
import type { ProcessInfo } from "../../lib/process/info.ts";

/** A process with known facts. */
export const PROCESS_INFO: ProcessInfo = {
  version: "0.1.0",
  runtime: "deno-2.9.6",
  pid: 7,
  unixMs: 1_800_000_000_500,
  random: 0.5,
  hashSeed: Int32Array.of(1, 2),
  keepsMemoryOrder: true,
  processors: 8,
};

/** @throws Error when the command line starts no server. */
export function serverOptions(...argv: string[]): ServerOptions {
  const command = readCommand(argv, PROCESS_INFO);
  if (command.kind !== "run") throw new Error(JSON.stringify(command));
  return command.options;
}
