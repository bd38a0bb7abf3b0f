import { OPCODES } from "../binary_opcodes.ts";
import type { ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** `stats ops`: how often each command was asked for, under yrmcds's names. */
export function* opStats(thread: ThreadContext): Generator<StatEntry> {
  const { ops, textParser } = thread;
  for (const { name, index } of textParser.commands) yield [`text:${name}`, ops.text(index)];
  for (const [name, opcode] of OPCODES) yield [`binary:${name}`, ops.binary(opcode)];
}
