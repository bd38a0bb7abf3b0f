import { parseOptions } from "../../cli/argv.ts";
import type { CommandLine } from "../../cli/command_line.ts";
import { helpLines, optionTexts } from "../../cli/help.ts";
import { TOP_OPTIONS } from "../../cli/option_table.ts";
import { readTargets, type Targets } from "../targets.ts";
import type { ViewName } from "./views.ts";

/** The options of `leased top`, checked. */
export interface TopOptions {
  readonly targets: Targets;
  readonly once: boolean;
  readonly intervalMs: number;
  readonly view: ViewName;
}

/** Parses the command line after `leased top`. */
export function readTopCommand(argv: readonly string[]): CommandLine<TopOptions> {
  const { values, errors, given } = parseOptions(argv, TOP_OPTIONS, "server");
  if (values.help) return { kind: "print", text: HELP };
  const server = given.has("server") ? values.server : ["127.0.0.1:11211"];
  const targets = readTargets({ ...values, server }, errors);
  if (errors.length > 0) return { kind: "refuse", errors, logFormat: values.logFormat };
  return { kind: "run", options: { ...values, targets } };
}

const HELP = [
  "Usage: leased top [server ...] [options]",
  "       A server is host:port, or the path of a Unix socket.",
  "",
  "Watches servers, memcached included; by default 127.0.0.1:11211.",
  ...helpLines(optionTexts(TOP_OPTIONS)),
  "",
  "Keys:",
  "  q           quit",
  "  space       pause",
  "  tab         next table",
  "  left right  sort by another column",
  "  r           reverse the order",
  "  /           filter: show rows that contain a text",
  "  up down     scroll; also page up, page down, home, end",
  "",
  "Exit status:",
  "  0   quit",
  "  64  a mistake in the command line",
  "  69  with --once: a server cannot be reached",
].join("\n");
