import { deadlineSec, PAST_SEC, shiftClock, stopClock } from "../../store/clock.ts";
import { MIB } from "../../store/limits.ts";
import type { Conversation, RequestConversation } from "../conversation.ts";
import { REFUSAL, REPLY, versionText } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { answer, argumentCount, readInt32, wordText } from "./answer.ts";

/** memcached keeps no more than this. */
const VERBOSITY_MAX = 2;
const MEMORY_LIMIT_MIB_MIN = 8;
/** A larger number was surely meant as bytes (memcached: process_memlimit_command). */
const MEMORY_LIMIT_MIB_SANE = 1_000_000_000;

/** `flush_all [<delay>]` */
export function flushAll(conversation: RequestConversation): Flow {
  const { request, numbers, cache, settings } = conversation.thread;
  const isGiven = argumentCount(request, 1) > 0;
  if (!settings.disableFlushAll && isGiven && !readInt32(conversation, 1)) {
    cache.countRefusedFlush();
    return answer(conversation, REFUSAL.BAD_EXPTIME);
  }
  const isDone = flush(conversation, isGiven ? numbers.value : 0);
  return answer(conversation, isDone ? REPLY.OK : REFUSAL.FLUSH_NOT_ALLOWED);
}

/**
 * Hides what is stored.
 *
 * @param delay An expiry time as a client sends it; 0 and below: now.
 * @returns False when it is not allowed.
 */
export function flush(conversation: RequestConversation, delay: number): boolean {
  const { cache, memory, settings, work } = conversation.thread;
  // Every page is marked.
  work.chargeRows(cache.inspector.control("PAGES_EVER_USED"));
  if (settings.disableFlushAll) {
    cache.countRefusedFlush();
    return false;
  }
  if (delay <= 0) {
    cache.flushAll(0);
    return true;
  }
  // As memcached has it: a flush in n seconds takes what is stored up to the second before (memcached.c,
  // process_flush_all_command). A Unix time that is over does nothing.
  const instant = deadlineSec(memory, delay);
  if (instant === PAST_SEC) cache.countRefusedFlush();
  else cache.flushAll(instant - 1);
  return true;
}

/** `version` */
export function version(conversation: RequestConversation): Flow {
  const { reply, settings } = conversation.thread;
  reply.text(`VERSION ${versionText(settings.version)}\r\n`);
  return Flow.DONE;
}

/** `verbosity <level>`: kept for `stats settings`, and for the log. */
export function verbosity(conversation: RequestConversation): Flow {
  const { numbers, tunables, request, input } = conversation.thread;
  if (
    request.wordCount < 2 ||
    !numbers.unsignedLong(input, request.wordStart[1]!, request.wordEnd[1]!)
  ) return answer(conversation, REFUSAL.BAD_FORMAT);
  tunables.set("verbosity", Math.min(numbers.value >>> 0, VERBOSITY_MAX));
  return answer(conversation, REPLY.OK);
}

/** cache_memlimit: memory may be taken back and given, up to the ceiling that the process started with. */
export function memoryLimit(conversation: RequestConversation): Flow {
  const { numbers, cache, request, input } = conversation.thread;
  if (
    request.wordCount < 2 ||
    !numbers.unsignedLong(input, request.wordStart[1]!, request.wordEnd[1]!)
  ) return answer(conversation, REPLY.ERROR);
  const mebibytes = numbers.value >>> 0;
  if (mebibytes < MEMORY_LIMIT_MIB_MIN) return answer(conversation, REFUSAL.MEMLIMIT_TOO_SMALL);
  if (mebibytes > MEMORY_LIMIT_MIB_SANE) return answer(conversation, REFUSAL.MEMLIMIT_NOT_BYTES);
  const done = cache.setMemoryLimit(mebibytes * MIB);
  return answer(conversation, done ? REPLY.OK : REFUSAL.MEMLIMIT_BOUNDS);
}

/** `refresh_certs`. Reads files, so others go before the connection's next request. */
export function refreshCertificates(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { settings, hooks, reply } = thread;
  if (settings.tls === null || hooks.refreshCertificates === undefined) {
    // As in memcached, noreply does not silence errors.
    reply.put(REFUSAL.TLS_NOT_ENABLED);
    return Flow.DONE;
  }
  thread.work.endSlice();
  const failure = thread.withoutMutex(() => hooks.refreshCertificates!());
  if (failure === "") return answer(conversation, REPLY.OK);
  reply.text(`${failure}\r\n`);
  return Flow.DONE;
}

/** `debugtime <seconds>|p|r`, if `--test-commands` allows it: moves, stops or resumes the clock. */
export function debugTime(conversation: RequestConversation): Flow {
  const { settings, memory, numbers } = conversation.thread;
  if (!settings.testCommands) return answer(conversation, REPLY.ERROR);
  const word = wordText(conversation, 1);
  if (word === "p" || word === "r") {
    stopClock(memory, word === "p");
    return answer(conversation, REPLY.OK);
  }
  const isMoved = readInt32(conversation, 1) && shiftClock(memory, numbers.value);
  return answer(conversation, isMoved ? REPLY.OK : REPLY.ERROR);
}

/** `shutdown [graceful]`, if `-A` allows it. */
export function shutdown(conversation: RequestConversation): Flow {
  const { settings, hooks, request } = conversation.thread;
  if (!settings.enableShutdown) return answer(conversation, REFUSAL.SHUTDOWN_NOT_ENABLED);
  const mode = argumentCount(request, 1) > 0 ? wordText(conversation, 1) : "";
  if (mode !== "" && mode !== "graceful") return answer(conversation, REFUSAL.BAD_SHUTDOWN_MODE);
  hooks.shutdown(mode === "graceful");
  return Flow.CLOSE;
}
