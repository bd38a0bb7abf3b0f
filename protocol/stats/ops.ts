import { Access } from "../auth/access.ts";
import type { Protocols } from "../conversation.ts";
import type { StatEntry } from "./entry.ts";

/** `stats ops`: how often each command was asked for, under yrmcds's names. */
export function* opStats(protocols: Protocols): Generator<StatEntry> {
  const { ops } = protocols.thread;
  const text = protocols.textFor(Access.ADMIN);
  const binary = protocols.binaryFor(Access.ADMIN);
  for (const { name, index } of text.commands) yield [`text:${name}`, ops.text(index)];
  for (const { name, index } of binary.commands) yield [`binary:${name}`, ops.binary(index)];
}
