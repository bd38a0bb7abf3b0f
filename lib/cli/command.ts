import license from "../../LICENSE" with { type: "text" };
import { MEMCACHED_VERSION } from "../../protocol/reply/replies.ts";
import type { LogFormat } from "../log.ts";
import type { ProcessInfo } from "../process_info.ts";
import { parseOptions } from "./argv.ts";
import { helpText } from "./help.ts";
import { SERVER_OPTIONS } from "./option_table.ts";
import { unknownSubcommand } from "./subcommand.ts";
import { type ServerOptions, toServerOptions } from "./options.ts";

/** The action that a command line asks for. */
export type Command =
  | { readonly kind: "print"; readonly text: string }
  | { readonly kind: "refuse"; readonly errors: readonly string[]; readonly logFormat: LogFormat }
  | { readonly kind: "serve"; readonly options: ServerOptions };

/** Reads the command line. --help, --version and --license take precedence over mistakes. */
export function readCommand(argv: readonly string[], processInfo: ProcessInfo): Command {
  const parsed = parseOptions(argv, SERVER_OPTIONS);
  const { values, errors } = parsed;
  const logFormat = values["log-format"];
  const unknown = unknownSubcommand(argv);
  if (unknown !== null) return { kind: "refuse", errors: [unknown], logFormat };
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  if (values.version) return { kind: "print", text: versionText(processInfo) };
  if (values.license) return { kind: "print", text: license.trimEnd() };
  const options = toServerOptions(parsed, processInfo, errors);
  return errors.length > 0 ? { kind: "refuse", errors, logFormat } : { kind: "serve", options };
}

function versionText(processInfo: ProcessInfo): string {
  return `leased ${processInfo.version} (speaks memcached ${MEMCACHED_VERSION}; ${processInfo.runtime})`;
}
