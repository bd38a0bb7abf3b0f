import license from "../../LICENSE" with { type: "text" };
import { MEMCACHED_VERSION } from "../../protocol/reply/replies.ts";
import type { ProcessInfo } from "../process/info.ts";
import { parseOptions } from "./argv.ts";
import type { CommandLine } from "./command_line.ts";
import { helpText } from "./help.ts";
import { SERVER_OPTIONS } from "./option_table.ts";
import { unknownSubcommand } from "./subcommand.ts";
import { type ServerOptions, toServerOptions } from "./options.ts";

/** Reads the command line of the server. --help, --version and --license take precedence over mistakes. */
export function readCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): CommandLine<ServerOptions> {
  const parsed = parseOptions(argv, SERVER_OPTIONS);
  const { values, errors } = parsed;
  const logFormat = values.logFormat;
  const unknown = unknownSubcommand(argv);
  if (unknown !== null) return { kind: "refuse", errors: [unknown], logFormat };
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  if (values.version) return { kind: "print", text: versionText(processInfo) };
  if (values.license) return { kind: "print", text: license.trimEnd() };
  const options = toServerOptions(parsed, processInfo, errors);
  return errors.length > 0 ? { kind: "refuse", errors, logFormat } : { kind: "run", options };
}

function versionText(processInfo: ProcessInfo): string {
  return `leased ${processInfo.version} (speaks memcached ${MEMCACHED_VERSION}; ${processInfo.runtime})`;
}
