import { isWord, oneWord } from "../../store/base/key_text.ts";
import { CLASSES_MAX } from "../../store/cache.ts";
import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import type { Flow } from "../request.ts";
import { connectionStats } from "../stats/connections.ts";
import type { StatEntry } from "../stats/entry.ts";
import { generalStats, resetStats } from "../stats/general.ts";
import { hotKeyStats } from "../stats/hot_keys.ts";
import { cachedump } from "../stats/item_walk.ts";
import { STAT_KINDS } from "../stats/kinds.ts";
import type { PrefixTable } from "../prefix_counts.ts";
import { answer, sendText, wordText } from "./answer.ts";
import { rowCommand } from "./row_command.ts";

type SubCommand = readonly [
  name: string,
  access: Access,
  handler: (conversation: RequestConversation) => Flow,
];

/** Other arguments of `stats`. A prefix is enough; the first match wins (memcached). */
const SUB_COMMANDS: readonly SubCommand[] = [
  ["reset", Access.ADMIN, reset],
  ["detail", Access.ADMIN, detail],
  ["cachedump", Access.ADMIN, dumpClass],
  ["conns", Access.ADMIN, (c) => send(c, connectionStats(c.thread, c.owner))],
  ["hotkeys", Access.ADMIN, hotKeys],
  ["rows", Access.READ, (c) => rowCommand(c)],
  ["extstore", Access.READ, (c) => send(c, [])],
];

const SUB_WORD = 1;

/** `stats [<what>]` */
export function stats(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  if (thread.request.wordCount <= SUB_WORD) return send(conversation, generalStats(thread));
  const word = wordText(conversation, SUB_WORD);
  const subcommand = subcommandOf(word);
  if (subcommand !== undefined) return subcommand[2](conversation);
  for (const [name, loose, entries] of STAT_KINDS) {
    const fits = loose ? name.startsWith(word) : name === word;
    if (fits) return send(conversation, entries(conversation));
  }
  return answer(conversation, REPLY.ERROR);
}

/** The access that `stats` needs with its argument. */
export function statsAccess(conversation: RequestConversation): Access {
  if (conversation.thread.request.wordCount <= SUB_WORD) return Access.READ;
  return subcommandOf(wordText(conversation, SUB_WORD))?.[1] ?? Access.READ;
}

function subcommandOf(word: string): SubCommand | undefined {
  return SUB_COMMANDS.find(([name]) => name.startsWith(word));
}

function send(conversation: RequestConversation, entries: Iterable<StatEntry | null>): Flow {
  return sendText(conversation, statLines(entries));
}

function* statLines(entries: Iterable<StatEntry | null>): Generator<string> {
  for (const entry of entries) yield entry === null ? "" : `STAT ${entry[0]} ${entry[1]}\r\n`;
  yield "END\r\n";
}

function reset(conversation: RequestConversation): Flow {
  resetStats(conversation.thread);
  return answer(conversation, REPLY.RESET);
}

function hotKeys(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  if (thread.settings.disableDumping) return answer(conversation, REFUSAL.HOT_KEYS_NOT_ALLOWED);
  return send(conversation, hotKeyStats(thread));
}

function detail(conversation: RequestConversation): Flow {
  const { settings, tunables, prefixes } = conversation.thread;
  if (settings.disableDumping) return answer(conversation, REFUSAL.DETAIL_NOT_ALLOWED);
  switch (wordText(conversation, SUB_WORD + 1)) {
    case "on":
      tunables.set("detail_enabled", 1);
      return answer(conversation, REPLY.OK);
    case "off":
      tunables.set("detail_enabled", 0);
      return answer(conversation, REPLY.OK);
    case "dump":
      return sendText(conversation, prefixLines(prefixes));
    default:
      return answer(conversation, REFUSAL.DETAIL_USAGE);
  }
}

/** The lines of `stats detail dump`. Percent-encodes a prefix only if it is no word: memcached encodes none. */
export function* prefixLines(prefixes: PrefixTable): Generator<string> {
  for (const row of prefixes) {
    const prefix = isWord(row.prefix) ? row.prefix : oneWord(row.prefix);
    yield `PREFIX ${prefix} get ${row.get} hit ${row.hit} set ${row.set} del ${row.delete}\r\n`;
  }
  yield "END\r\n";
}

function dumpClass(conversation: RequestConversation): Flow {
  const { settings, request, numbers, input } = conversation.thread;
  const { wordStart, wordEnd, wordCount } = request;
  if (settings.disableDumping) return answer(conversation, REFUSAL.CACHEDUMP_NOT_ALLOWED);
  if (wordCount < 4) return answer(conversation, REFUSAL.BAD_LINE);
  if (!numbers.unsignedLong(input, wordStart[2]!, wordEnd[2]!)) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  const classId = numbers.value >>> 0;
  if (!numbers.unsignedLong(input, wordStart[3]!, wordEnd[3]!)) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  const limit = numbers.value >>> 0;
  if (classId >= CLASSES_MAX) return answer(conversation, REFUSAL.ILLEGAL_SLAB_ID);
  return sendText(conversation, cachedump(conversation.thread, classId, limit));
}
