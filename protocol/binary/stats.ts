import { latin1Text } from "../../store/base/bytes.ts";
import type { BinaryRequest } from "./request.ts";
import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import type { Flow } from "../request.ts";
import type { StatEntry } from "../stats/entry.ts";
import { generalStats, resetStats } from "../stats/general.ts";
import { STAT_KINDS } from "../stats/kinds.ts";
import { Status } from "../reply/binary_status.ts";
import type { RequestThread } from "../thread_context.ts";
import { sendText } from "../text/answer.ts";
import { refuse } from "./answer.ts";
import { prefixLines } from "../text/stats.ts";

const RESET = "reset";
const DETAIL = "detail";
/** Cost of a line of `stats detail dump`. */
const LINE_UNITS = 4;

/** Stat: a packet for every line, then one with neither key nor value. */
export function stat(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const { input, operation } = thread;
  const { keyOffset, keyLength } = operation;
  const word = latin1Text(input.bytes, keyOffset, keyLength);
  const entries = word === "" ? generalStats(thread) : entriesOf(conversation, word);
  if (entries === null) return refuse(conversation, binary, Status.NOT_FOUND);
  return sendText(conversation, packets(binary.copy(), entries));
}

/** The access that Stat needs with its key. */
export function statAccess({ thread: { input, operation } }: RequestConversation): Access {
  const word = latin1Text(input.bytes, operation.keyOffset, operation.keyLength);
  return word.startsWith(RESET) || word.startsWith(DETAIL) ? Access.ADMIN : Access.READ;
}

function entriesOf(
  conversation: RequestConversation,
  word: string,
): Iterable<StatEntry | null> | null {
  const { thread } = conversation;
  if (word.startsWith(RESET)) {
    resetStats(thread);
    return [];
  }
  if (word.startsWith(DETAIL)) return detail(thread, word.slice(DETAIL.length));
  for (const [name, loose, entries] of STAT_KINDS) {
    if (loose ? word.startsWith(name) : word === name) return entries(conversation);
  }
  return null;
}

function detail(thread: RequestThread, what: string): Iterable<StatEntry | null> | null {
  const { settings, tunables } = thread;
  if (settings.disableDumping) return null;
  if (what.startsWith(" dump")) return detailDump(thread);
  if (!what.startsWith(" on") && !what.startsWith(" off")) return null;
  tunables.set("detail_enabled", what.startsWith(" on") ? 1 : 0);
  return [];
}

function* packets(
  request: BinaryRequest,
  entries: Iterable<StatEntry | null>,
): Generator<string> {
  for (const entry of entries) {
    yield entry === null ? "" : packet(request, entry[0], String(entry[1]));
  }
  yield packet(request, "", "");
}

/** All prefixes in one packet. */
function* detailDump({ prefixes, work }: RequestThread): Generator<StatEntry | null> {
  let text = "";
  for (const line of prefixLines(prefixes)) {
    text += line;
    work.spent += LINE_UNITS;
    yield null;
  }
  yield ["detailed", text];
}

/** A reply as characters below 256. */
function packet({ opcode, opaque }: BinaryRequest, key: string, value: string): string {
  return String.fromCharCode(0x81, opcode) + number(key.length, 2) + "\0\0\0\0" +
    number(key.length + value.length, 4) + number(opaque, 4) + "\0".repeat(8) + key + value;
}

/** The lower bytes of a number, the highest first. */
function number(value: number, bytes: number): string {
  let text = "";
  for (let shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += String.fromCharCode((value >>> shift) & 0xff);
  }
  return text;
}
