import license from "../../../LICENSE" with { type: "text" };
import { parseOptions } from "../../cli/argv.ts";
import type { CommandLine } from "../../cli/command_line.ts";
import { helpLines, optionTexts } from "../../cli/help.ts";
import { readServerAddress } from "../../cli/listen.ts";
import { AUDIT_OPTIONS } from "../../cli/option_table.ts";
import { valueOr } from "../../cli/values.ts";
import type { LogFormat } from "../../process/log.ts";
import type { ProcessInfo } from "../../process/info.ts";
import type { Address } from "../../peers/peer.ts";
import { latin1Text } from "../../../store/base/bytes.ts";

const EXIT_STATUS = [
  "0   every cached value is the committed one",
  "1   there are differences, or a canary has read an old value",
  "64  a mistake in the command line",
  "69  a cache or the origin cannot be reached, or its replies make no sense",
  "77  a permission of deno run is missing",
] as const;

/** The options of an audit, checked. */
export interface AuditOptions {
  readonly origin: Address;
  /** Empty: the origin's own, and those of its nodes. */
  readonly caches: readonly Address[];
  /** Paths of files with names and passwords; "": no authentication. */
  readonly originLogin: string;
  readonly cacheLogin: string;
  /** Paths of the certificates that verify the origin and the caches; "": no TLS. */
  readonly originCaCert: string;
  readonly cacheCaCert: string;
  readonly prefix: string;
  /** Keys to write and read; empty: items are compared. */
  readonly canary: readonly string[];
  readonly intervalMs: number;
  /** 0: until a signal. */
  readonly rounds: number;
  readonly timeoutMs: number;
  readonly logFormat: LogFormat;
}

/** Keys of a text command. */
const TEXT_KEY = /^[^\0-\x20\x7f]{1,250}$/;
const ENCODER = new TextEncoder();

/** Names of earlier versions. */
const SECOND_NAMES = {
  "proxy": "origin",
  "proxy-login": "origin-login",
  "proxy-ca-cert": "origin-ca-cert",
} as const;

/** Parses the command line after `leased audit`. */
export function readAuditCommand(
  argv: readonly string[],
  processInfo: ProcessInfo,
): CommandLine<AuditOptions> {
  const { values, errors } = parseOptions(argv, AUDIT_OPTIONS, undefined, SECOND_NAMES);
  if (values.help) return { kind: "print", text: helpText(processInfo.version) };
  if (values.license) return { kind: "print", text: license.trimEnd() };
  const address = (name: string, text: string): Address =>
    valueOr(
      { hostname: "", port: 0 },
      () => readServerAddress(text),
      errors,
      `--${name} ${JSON.stringify(text)}`,
    );
  const canary = values.canary.map((text) => {
    const key = latin1Text(ENCODER.encode(text));
    if (!TEXT_KEY.test(key)) {
      const expected = "expected a key of 1 to 250 bytes without blanks";
      errors.push(`--canary ${JSON.stringify(text)}: ${expected}`);
    }
    return key;
  });
  const options: AuditOptions = {
    ...values,
    canary,
    origin: address("origin", values.origin),
    caches: values.cache.map((text) => address("cache", text)),
  };
  return errors.length > 0
    ? { kind: "refuse", errors, logFormat: values.logFormat }
    : { kind: "run", options };
}

/** Returns the text of `leased audit --help`. */
function helpText(version: string): string {
  return [
    `leased ${version}: compares caches with the database behind an origin`,
    "",
    "Usage: leased audit [options]",
    ...helpLines(optionTexts(AUDIT_OPTIONS)),
    "",
    "Exit status:",
    ...EXIT_STATUS.map((line) => `  ${line}`),
  ].join("\n");
}
