import license from "../../../LICENSE" with { type: "text" };
import { parseTable } from "../../cli/argv.ts";
import { helpLines, type OptionGroup, type OptionText, optionTexts } from "../../cli/help.ts";
import { readServerAddress } from "../../cli/listen.ts";
import type { OptionRow } from "../../cli/option_table.ts";
import { valueOr } from "../../cli/values.ts";
import type { LogFormat } from "../../log.ts";
import type { ProcessInfo } from "../../process_info.ts";
import type { Address } from "./peer.ts";

const NONE = NaN;
const INT31 = 2 ** 31 - 1;

/** The options of `leased audit`. */
// deno-fmt-ignore
const AUDIT_OPTIONS = [
  // name            letter kind      unit            least most   preset             state    meaning
  ["proxy",          "",  "text",   "host:port",    NONE, NONE,  "127.0.0.1:11311", "works", "proxy that reads the database"],
  ["cache",          "",  "list",   "host:port",    NONE, NONE,  "",                "works", "cache to compare; separate several with commas, or repeat the option; by default every cache of the proxy"],
  ["proxy-login",    "",  "text",   "path",         NONE, NONE,  "",                "works", "file with the line user:password for a proxy that asks for passwords"],
  ["cache-login",    "",  "text",   "path",         NONE, NONE,  "",                "works", "file with the line user:password for caches that ask for passwords; the level admin is needed to list keys"],
  ["proxy-ca-cert",  "",  "text",   "path",         NONE, NONE,  "",                "works", "reach the proxy over TLS, and verify it against these certificates in PEM, beside the runtime's root certificates"],
  ["cache-ca-cert",  "",  "text",   "path",         NONE, NONE,  "",                "works", "reach caches over TLS, and verify them as the proxy"],
  ["prefix",         "",  "text",   "text",         NONE, NONE,  "",                "works", "compare only keys that begin with this text; needed when a cache also holds keys that are no rows"],
  ["timeout",        "",  "whole",  "milliseconds",    1, INT31, "10000",           "works", "how long a cache or the proxy may be silent"],
  ["log-format",     "",  "choice", "text|json",    NONE, NONE,  "text",            "works", "format of errors on stderr"],
  ["help",           "h", "switch", "",             NONE, NONE,  "",                "works", "print this help and exit"],
  ["license",        "i", "switch", "",             NONE, NONE,  "",                "works", "print the license and exit"],
] as const satisfies readonly OptionRow[];

const GROUPS: readonly OptionGroup[] = [["Options", AUDIT_OPTIONS]];

const EXIT_STATUS = [
  "0   every cached value is the committed one",
  "1   there are differences",
  "64  a mistake in the command line",
  "69  a cache or the proxy cannot be reached, or its replies make no sense",
] as const;

/** The options of an audit, checked. */
export interface AuditOptions {
  readonly proxy: Address;
  /** Empty: every cache of the proxy. */
  readonly caches: readonly Address[];
  /** Paths of files with names and passwords; "": nobody asks for them. */
  readonly proxyLoginFile: string;
  readonly cacheLoginFile: string;
  /** Paths of certificates that verify those of the proxy and the caches; "": without TLS. */
  readonly proxyCaCertPath: string;
  readonly cacheCaCertPath: string;
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly logFormat: LogFormat;
}

/** The action that a command line asks for. */
export type AuditCommandLine =
  | { readonly kind: "print"; readonly text: string }
  | { readonly kind: "refuse"; readonly errors: readonly string[]; readonly logFormat: LogFormat }
  | { readonly kind: "audit"; readonly options: AuditOptions };

/** Parses the command line after `leased audit`. */
export function readAuditCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): AuditCommandLine {
  const { values, errors } = parseTable(argv, AUDIT_OPTIONS);
  if (values["help"]) return { kind: "print", text: helpText(processInfo.version) };
  if (values["license"]) return { kind: "print", text: license.trimEnd() };
  const address = (name: string, text: string): Address =>
    valueOr(
      { hostname: "", port: 0 },
      () => readServerAddress(text),
      errors,
      `--${name} ${JSON.stringify(text)}`,
    );
  const logFormat = values["log-format"] as LogFormat;
  const options: AuditOptions = {
    proxy: address("proxy", values["proxy"] as string),
    caches: (values["cache"] as readonly string[]).map((text) => address("cache", text)),
    proxyLoginFile: values["proxy-login"] as string,
    cacheLoginFile: values["cache-login"] as string,
    proxyCaCertPath: values["proxy-ca-cert"] as string,
    cacheCaCertPath: values["cache-ca-cert"] as string,
    prefix: values["prefix"] as string,
    timeoutMs: values["timeout"] as number,
    logFormat,
  };
  return errors.length > 0 ? { kind: "refuse", errors, logFormat } : { kind: "audit", options };
}

/** Describes every option, in the order of `--help`. */
export function auditOptionTexts(): OptionText[] {
  return optionTexts(GROUPS);
}

/** Returns the text of `leased audit --help`. */
function helpText(version: string): string {
  return [
    `leased ${version}: compares caches with the database behind an update-token proxy`,
    "",
    "Usage: leased audit [options]",
    ...helpLines(auditOptionTexts()),
    "",
    "Exit status:",
    ...EXIT_STATUS.map((line) => `  ${line}`),
  ].join("\n");
}
