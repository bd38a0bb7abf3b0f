import { deadlineSec } from "../../store/clock.ts";
import { ATTEMPTS_MAX, type ItemRef, NO_ITEM, ReadOutcome } from "../../store/cache.ts";
import { MARK_KEY_BINARY } from "../../store/operation.ts";
import { Access } from "../auth/access.ts";
import type { Conversation } from "../conversation.ts";
import * as flagsModule from "./flags.ts";
import * as metaRequestModule from "./request.ts";
import * as repliesModule from "../replies.ts";
import { AROUND_VALUE_ROOM } from "../reply_buffer.ts";
import { Flow } from "../request.ts";
import { SendTask } from "../tasks.ts";
import type { ThreadContext } from "../thread_context.ts";
import {
  putEchoedFlag,
  putEchoedFlags,
  putKey,
  putOpaque,
  putTtl,
  putU64Flag,
  putUint32Flag,
} from "./replies.ts";

const { FLAG } = flagsModule;
const { FIRST_FLAG } = metaRequestModule;
const { META, REPLY } = repliesModule;

// Hot path: no allocation.

/** mg: reads, and whatever its flags ask for. */
export function metaGet(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { meta, cache, operation, input, reply } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  if (!needsMutex(thread)) {
    thread.releaseForReads();
    if (!thread.isHolding && getOptimistically(thread)) return Flow.DONE;
  }
  thread.hold();
  const item = cache.meta.find(input, meta.keyOffset, meta.keyLength);
  if (thread.tunables.detailEnabled) {
    thread.prefixes.countGet(input, meta.keyOffset, meta.keyLength, item !== NO_ITEM);
  }
  if (item !== NO_ITEM) return answerItem(conversation, item, false);
  if (!meta.vivify) return answerMiss(thread);
  operation.begin(meta.keyOffset, meta.keyLength);
  if (cache.findLease(operation)) return answerLease(thread);
  const stub = makeStub(thread);
  return stub === NO_ITEM ? answerMiss(thread) : answerItem(conversation, stub, true);
}

/** Whether a flag changes the item, or tells about its reads. */
function needsMutex({ meta, request }: ThreadContext): boolean {
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.C:
      case FLAG.E:
      case FLAG.N:
      case FLAG.R:
      case FLAG.T:
      case FLAG.h:
      case FLAG.l:
        return true;
    }
  }
  return false;
}

/**
 * Answers an mg that changes nothing, if the key can be read without the mutex.
 *
 * @returns False when the mutex is needed; then nothing has happened.
 */
function getOptimistically(thread: ThreadContext): boolean {
  const { meta, reply, input, cache } = thread;
  const { optimistic, prefetch } = cache;
  const { keyOffset, keyLength } = meta;
  const hash = prefetch.hashOf(input, keyOffset, keyLength);
  const start = reply.length;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const outcome = optimistic.find(input, keyOffset, keyLength, hash);
    if (outcome === ReadOutcome.MISS) {
      optimistic.countMiss();
      putMiss(thread);
      return true;
    }
    const { valueLength } = optimistic;
    if (outcome === ReadOutcome.BUSY || valueLength > reply.room - AROUND_VALUE_ROOM) break;
    // The first reader of a stale item wins it, which changes the item.
    if (optimistic.isStale || optimistic.isWon) break;
    putOptimisticLine(thread, valueLength);
    if (meta.value) optimistic.copyValue(reply.region, reply.length);
    if (optimistic.confirm()) {
      optimistic.noteHit(keyLength, hash, !meta.noUpdate);
      if (meta.value) {
        reply.length += valueLength;
        reply.crlf();
      }
      return true;
    }
    reply.length = start;
  }
  optimistic.countFallback();
  return false;
}

/** The line of an item that is read without the mutex. */
function putOptimisticLine(thread: ThreadContext, valueLength: number): void {
  const { meta, reply, request, cache: { optimistic } } = thread;
  if (meta.value) {
    reply.put(META.VA_SPACE);
    reply.decimal(valueLength);
  } else {
    reply.put(META.HD);
  }
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, optimistic.idLow, optimistic.idHigh);
        break;
      case FLAG.f:
        putUint32Flag(reply, FLAG.f, optimistic.clientFlags);
        break;
      case FLAG.s:
        putUint32Flag(reply, FLAG.s, valueLength);
        break;
      case FLAG.t:
        putTtl(thread, optimistic.remainSec);
        break;
      default:
        putEchoedFlag(thread, word, optimistic.isKeyBinary);
    }
  }
  reply.crlf();
}

/** The access that mg needs: some flags create an item, change its expiry time, or win the right to refresh it. */
export function metaGetAccess(conversation: Conversation): Access {
  const { request, meta } = conversation.thread;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    const letter = meta.letter(word);
    if (letter === FLAG.N || letter === FLAG.T || letter === FLAG.R) return Access.WRITE;
  }
  return Access.READ;
}

/** Creates a placeholder whose value has not been fetched yet (`mg` with N). The operation has its key. */
function makeStub(thread: ThreadContext): ItemRef {
  const { meta, cache, operation } = thread;
  // The deadline stays 0 until `putItemFlags` meets the flag N.
  operation.marks = meta.isBinary ? MARK_KEY_BINARY : 0;
  operation.explicit = meta.explicit;
  operation.explicitLow = meta.explicitLow;
  operation.explicitHigh = meta.explicitHigh;
  return cache.meta.makeStub(operation);
}

function answerMiss(thread: ThreadContext): Flow {
  thread.cache.meta.noteMiss();
  putMiss(thread);
  return Flow.DONE;
}

function putMiss(thread: ThreadContext): void {
  const { meta, reply } = thread;
  if (meta.quiet) return;
  reply.put(META.EN);
  putEchoedFlags(thread);
  reply.crlf();
}

/** Under a lease there is no value, and somebody else has been told to fetch it. */
function answerLease(thread: ThreadContext): Flow {
  const { meta, cache, reply, request, operation } = thread;
  cache.meta.noteMiss();
  reply.put(meta.value ? META.VA_EMPTY : META.HD);
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
        break;
      case FLAG.t:
        putUint32Flag(reply, FLAG.t, operation.remainSec);
        break;
      case FLAG.s:
      case FLAG.f:
      case FLAG.h:
      case FLAG.l:
        putUint32Flag(reply, meta.letter(word), 0);
        break;
      default:
        putEchoedFlag(thread, word, meta.isBinary);
    }
  }
  reply.put(META.LOST);
  reply.crlf();
  if (meta.value) reply.crlf();
  return Flow.DONE;
}

/** @param made Whether the item is a stub that was made just now. */
function answerItem(conversation: Conversation, item: ItemRef, made: boolean): Flow {
  const { thread } = conversation;
  const { meta, cache, reply } = thread;
  const valueLength = cache.valueLength(item);
  const withValue = meta.value &&
    !(meta.compare && cache.idLow(item) === meta.compareLow &&
      cache.idHigh(item) === meta.compareHigh);
  if (withValue) {
    reply.put(META.VA_SPACE);
    reply.decimal(valueLength);
  } else {
    reply.put(META.HD);
  }
  const wins = putItemFlags(conversation, item, made);
  putTokens(thread, item, wins);
  reply.crlf();
  cache.meta.noteHit(item, meta.touches, !meta.noUpdate);
  if (!withValue) return Flow.DONE;
  if (!reply.value(cache, item, valueLength)) {
    conversation.task = new SendTask(thread, item, true, null);
    return Flow.UNDER_WAY;
  }
  reply.crlf();
  return Flow.DONE;
}

/**
 * The flags in the order asked for; what they do happens in this order too.
 *
 * @returns Whether the asker shall fetch the value.
 */
function putItemFlags(conversation: Conversation, item: ItemRef, made: boolean): boolean {
  const { thread } = conversation;
  const { meta, cache, reply, request, memory } = thread;
  let wins = false;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    const letter = meta.letter(word);
    switch (letter) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, cache.idLow(item), cache.idHigh(item));
        break;
      case FLAG.f:
        putUint32Flag(reply, FLAG.f, cache.clientFlags(item));
        break;
      case FLAG.s:
        putUint32Flag(reply, FLAG.s, cache.valueLength(item));
        break;
      case FLAG.t:
        putTtl(thread, cache.meta.remainSec(item));
        break;
      case FLAG.h:
        putUint32Flag(reply, FLAG.h, cache.meta.wasFetched(item) ? 1 : 0);
        break;
      case FLAG.l:
        putUint32Flag(reply, FLAG.l, cache.meta.idleSec(item));
        break;
      case FLAG.T:
        touch(conversation, item, meta.touchSeconds);
        break;
      case FLAG.N:
        if (!made) break;
        cache.meta.setDeadline(item, deadlineSec(memory, meta.vivifySeconds));
        wins = true;
        break;
      case FLAG.R:
        wins ||= !made && !cache.meta.isWon(item) &&
          isSoonerThan(cache.deadlineSec(item), deadlineSec(memory, meta.recacheSeconds));
        break;
      case FLAG.O:
        putOpaque(thread, word);
        break;
      case FLAG.k:
        putKey(thread, cache.meta.isKeyBinary(item));
    }
  }
  return wins;
}

function isSoonerThan(deadline: number, bound: number): boolean {
  return deadline !== 0 && deadline < bound;
}

/** Sets when the item dies, unless it is dirty and would live too long, or locked. */
export function touch(conversation: Conversation, item: ItemRef, seconds: number): void {
  const { cache, meta, input, memory } = conversation.thread;
  const deadline = deadlineSec(memory, seconds);
  cache.meta.touch(item, input, meta.keyOffset, meta.keyLength, deadline, conversation.owner);
}

/** Z: somebody fetches it already; X: it is stale; W: the asker shall fetch it. */
function putTokens(thread: ThreadContext, item: ItemRef, wins: boolean): void {
  const { cache, reply } = thread;
  const isWon = cache.meta.isWon(item);
  if (isWon) reply.put(META.LOST);
  const isStale = cache.meta.isStale(item);
  if (isStale) reply.put(META.STALE);
  if (!wins && !(isStale && !isWon)) return;
  reply.put(META.WON);
  cache.meta.markWon(item);
}

/** mn: marks the end of a pipeline. */
export function metaNoop(conversation: Conversation): Flow {
  conversation.thread.reply.put(REPLY.MN);
  return Flow.DONE;
}
