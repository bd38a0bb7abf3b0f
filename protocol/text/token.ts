import { ByteRegion } from "../../store/base/bytes.ts";
import type { TokenView } from "../../store/cache.ts";
import { Operation } from "../../store/operation.ts";
import { Outcome } from "../../store/outcome.ts";
import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import { OUTCOME_LINE, REFUSAL, REPLY } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { chargeTokens, readTokenOwner, type TokenReply, TokenWait } from "../waits/token_wait.ts";
import { answer, beginWork, wordEquals, wordText } from "./answer.ts";
import { isRowWord, rowCommand } from "./row_command.ts";
import { readKey } from "./write.ts";
import { listTokens } from "./token_list.ts";

const SUBCOMMAND_WORD = 1;
const KEY_WORD = 2;
const ID_WORD = 3;
/** The word by which an operator confirms a drop. */
const UNSAFE = "unsafe";
/** Work of one step of a drop. */
const STEP_UNITS = 512;
/** Cost of dropping a token: its record goes to the journal's queue. */
const DROP_UNITS = 8;
/** Cost of logging it: a message to the main thread. */
const REPORT_UNITS = 56;
/** Highest cost of removing the locked values of one step through the table of locks. */
const LOCKED_STEP_UNITS = 512;

/** The subcommands of every writer. */
const GET = new TextEncoder().encode("get");
const RELEASE = new TextEncoder().encode("release");

/** `token get | release | list | drop`, `token drop_all`. */
export function token(conversation: RequestConversation): Flow {
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  if (isOfRows(conversation)) return rowCommand(conversation);
  if (wordEquals(conversation, SUBCOMMAND_WORD, RELEASE)) return releaseToken(conversation);
  // Only a release can be silent: a writer has to know its token, and an operator what he has done.
  conversation.thread.request.noreply = false;
  if (wordEquals(conversation, SUBCOMMAND_WORD, GET)) return getToken(conversation);
  switch (wordText(conversation, SUBCOMMAND_WORD)) {
    case "list":
      return listTokens(conversation);
    case "drop":
      return dropTokens(conversation);
    case "drop_all":
      return dropAllTokens(conversation);
    default:
      return answer(conversation, REPLY.ERROR);
  }
}

/** Whether the database thread has the update tokens that the command is about. */
function isOfRows(conversation: RequestConversation): boolean {
  if (conversation.thread.cache.parking === null) return false;
  switch (wordText(conversation, SUBCOMMAND_WORD)) {
    case "get":
    case "release":
    case "revoke":
    case "resolve":
      return isRowWord(conversation, KEY_WORD);
    case "list":
      return true;
    default:
      return false;
  }
}

/** The access that `token` needs: writers get and release tokens, only administrators list and drop them. */
export function tokenAccess(conversation: RequestConversation): Access {
  const subcommand = wordText(conversation, SUBCOMMAND_WORD);
  return subcommand === "get" || subcommand === "release" ? Access.WRITE : Access.ADMIN;
}

const TEXT_REPLY: TokenReply = {
  granted: putToken,
  failed: ({ reply }) => reply.put(OUTCOME_LINE[Outcome.NOT_PERSISTED]),
};

function putToken({ reply }: RequestThread, idLow: number, idHigh: number): void {
  reply.put(REPLY.TOKEN_SPACE);
  reply.decimalU64(idLow, idHigh);
  reply.crlf();
}

/** `token get <key> [<owner>]` */
function getToken(conversation: RequestConversation): Flow {
  const { thread } = conversation;
  const { request, operation, cache } = thread;
  const ownerStart = request.wordStart[ID_WORD]!;
  const ownerEnd = request.wordCount > ID_WORD ? request.wordEnd[ID_WORD]! : ownerStart;
  if (request.wordCount <= KEY_WORD || request.wordCount > ID_WORD + 1) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (!readTokenOwner(conversation, ownerStart, ownerEnd)) {
    return answer(conversation, REFUSAL.BAD_OWNER);
  }
  if (!readKey(conversation, KEY_WORD)) return answer(conversation, REFUSAL.BAD_FORMAT);
  chargeTokens(thread);
  const outcome = cache.tokens.get(operation);
  if (outcome === Outcome.WAITING) {
    conversation.task = new TokenWait(thread, TEXT_REPLY);
    return Flow.UNDER_WAY;
  }
  if (outcome !== Outcome.OK) return answer(conversation, OUTCOME_LINE[outcome]);
  putToken(thread, operation.idLow, operation.idHigh);
  return Flow.DONE;
}

/** `token release <key> <id> [noreply]` */
function releaseToken(conversation: RequestConversation): Flow {
  const { request, cache, operation } = conversation.thread;
  const words = request.wordCount - (request.noreply ? 1 : 0);
  if (words !== ID_WORD + 1 || !readKey(conversation, KEY_WORD) || !readId(conversation)) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  chargeTokens(conversation.thread);
  return answer(conversation, OUTCOME_LINE[cache.tokens.release(operation)]);
}

/** `token drop <key> [<id>] unsafe` */
function dropTokens(conversation: RequestConversation): Flow {
  const { request, cache, operation, connections, hooks, reply, settings } = conversation.thread;
  if (!settings.allowTokenDrop) return answer(conversation, REFUSAL.TOKEN_DROP_NOT_ALLOWED);
  const last = request.wordCount - 1;
  if (last < KEY_WORD + 1 || wordText(conversation, last) !== UNSAFE) {
    return answer(conversation, REFUSAL.TOKEN_DROP_UNSAFE);
  }
  const withId = last === ID_WORD + 1;
  if (last > ID_WORD + 1 || !readKey(conversation, KEY_WORD)) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (withId && !readId(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  const by = connections.peerOf(conversation.owner);
  const report = (token: TokenView): void => hooks.tokensDropped({ token, count: 1, by });
  const { newestId } = cache.tokens;
  if (withId) {
    chargeTokens(conversation.thread);
    reply.text(`OK ${cache.tokens.drop(operation, 1, newestId, report)}\r\n`);
    return Flow.DONE;
  }
  // The input is another one in later slices.
  const key = new ByteRegion(keyBytes(operation));
  const onKey = Object.assign(new Operation(key), { keyLength: operation.keyLength });
  return dropInSteps(
    conversation,
    (most) => cache.tokens.drop(onKey, most, newestId, report),
    DROP_UNITS + REPORT_UNITS,
  );
}

/** Returns a copy of the operation's key. */
function keyBytes({ input, keyOffset, keyLength }: Operation): ArrayBuffer {
  return input.bytes.slice(keyOffset, keyOffset + keyLength).buffer as ArrayBuffer;
}

/**
 * Drops update tokens in steps, and answers with their number. Tokens given out during the walk stay.
 *
 * @param drop Drops up to `most` tokens, and returns how many there were.
 * @param units Cost of each.
 * @param after Called with the number of all.
 */
function dropInSteps(
  conversation: RequestConversation,
  drop: (most: number) => number,
  units: number,
  after: (dropped: number) => void = () => {},
): Flow {
  const most = Math.ceil(STEP_UNITS / units);
  let dropped = 0;
  return beginWork(conversation, {
    step({ work }): boolean {
      const count = drop(most);
      work.spent += count * units;
      dropped += count;
      return count === most;
    },
    end({ reply }): void {
      after(dropped);
      reply.text(`OK ${dropped}\r\n`);
    },
  });
}

/** `token drop_all unsafe` */
function dropAllTokens(conversation: RequestConversation): Flow {
  const { request, cache, connections, hooks, settings } = conversation.thread;
  if (!settings.allowTokenDrop) return answer(conversation, REFUSAL.TOKEN_DROP_NOT_ALLOWED);
  if (request.wordCount !== KEY_WORD + 1 || wordText(conversation, KEY_WORD) !== UNSAFE) {
    return answer(conversation, REFUSAL.TOKEN_DROP_UNSAFE);
  }
  const by = connections.peerOf(conversation.owner);
  const { newestId } = cache.tokens;
  return dropInSteps(
    conversation,
    (most) => cache.tokens.dropNewest(most, newestId),
    DROP_UNITS,
    (dropped) => {
      if (dropped > 0) hooks.tokensDropped({ token: null, count: dropped, by });
    },
  );
}

/** Reads the id of a token into the operation, which has the key already. */
function readId(conversation: RequestConversation): boolean {
  const { request, numbers, input, operation } = conversation.thread;
  const start = request.wordStart[ID_WORD]!;
  if (!numbers.u64(input, start, request.wordEnd[ID_WORD]!)) return false;
  operation.compare = true;
  operation.compareLow = numbers.low;
  operation.compareHigh = numbers.high;
  return true;
}

/** `quarantine on|off`: every key is uncacheable until it is turned off. `-F` refuses it, as it refuses flush_all. */
export function quarantine(conversation: RequestConversation): Flow {
  const { request, cache, settings } = conversation.thread;
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  const state = wordText(conversation, SUBCOMMAND_WORD);
  if (request.wordCount !== SUBCOMMAND_WORD + 1 || (state !== "on" && state !== "off")) {
    return answer(conversation, REFUSAL.QUARANTINE_USAGE);
  }
  if (settings.disableFlushAll) return answer(conversation, REFUSAL.QUARANTINE_NOT_ALLOWED);
  if (state === "off" && cache.journal.queue.isUnusable) {
    return answer(conversation, REFUSAL.JOURNAL_UNREADABLE);
  }
  cache.tokens.quarantine(state === "on");
  if (state === "off") return answer(conversation, REPLY.OK);
  let row = 1;
  return beginWork(conversation, {
    step({ cache, work }): boolean {
      row = cache.tokens.removeLocked(row);
      work.spent += LOCKED_STEP_UNITS;
      return row !== 0;
    },
    end: ({ reply }) => reply.put(REPLY.OK),
  });
}
