import type { ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** `stats ops`: how often each command was asked for, under yrmcds's names. */
export function* opStats(thread: ThreadContext): Generator<StatEntry> {
  const { ops, textParser, binaryParser } = thread;
  for (const { name, index } of textParser.commands) yield [`text:${name}`, ops.text(index)];
  for (const { name, opcode } of binaryParser.commands) {
    yield [`binary:${name}`, ops.binary(opcode)];
  }
}
