import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import type { CommandName, OpCounts } from "../counts/op_counts.ts";
import { counter, linesOf, type Stat, type StatEntry } from "./entry.ts";

const MEANING = counter("commands", "of both protocols, whatever became of them");

/** The statistics of `stats ops`: how often each command was asked for. */
export function* opStatistics(
  ops: OpCounts,
  text: readonly CommandName[],
  binary: readonly CommandName[],
): Generator<Stat> {
  for (const { name, index } of text) {
    yield { name, value: ops.text(index), meaning: MEANING, of: "text" };
  }
  for (const { name, index } of binary) {
    yield { name, value: ops.binary(index), meaning: MEANING, of: "binary" };
  }
}

/** `stats ops`: how often each command was asked for, under yrmcds's names. */
export function opStats({ thread, protocols }: RequestConversation): Generator<StatEntry> {
  const text = protocols.textFor(Access.ADMIN).commands;
  const binary = protocols.binaryFor(Access.ADMIN).commands;
  const statistics = opStatistics(thread.ops, text, binary);
  return linesOf(statistics, (of, name) => `${of}:${name}`);
}
