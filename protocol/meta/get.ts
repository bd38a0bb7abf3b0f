import { deadlineSec } from "../../store/clock.ts";
import type { MetaRequest } from "./request.ts";
import {
  type Found,
  type FoundWriter,
  type ItemRef,
  LOCKED_ITEM,
  NO_ITEM,
  outcomeOf,
} from "../../store/cache.ts";
import { Outcome } from "../../store/outcome.ts";
import { MARK_KEY_BINARY } from "../../store/operation.ts";
import { Access } from "../auth/access.ts";
import { countRead } from "../detail_counts.ts";
import type { Conversation, RequestConversation } from "../conversation.ts";
import * as flagsModule from "./flags.ts";
import * as metaRequestModule from "./request.ts";
import * as repliesModule from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { SendTask } from "../tasks.ts";
import type { RequestThread } from "../thread_context.ts";
import {
  isShownInBase64,
  putEchoedFlag,
  putEchoedFlags,
  putTtl,
  putU64Flag,
  putUint32Flag,
} from "./replies.ts";

const { FLAG } = flagsModule;
const { FIRST_FLAG } = metaRequestModule;
const { META, OUTCOME_LINE, REPLY } = repliesModule;

// Hot path: no allocation.

/** mg: reads, and whatever its flags ask for. */
export function metaGet(conversation: Conversation, meta: MetaRequest): Flow {
  const { thread } = conversation;
  const { cache, operation, input, reply } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  const { keyOffset, keyLength } = meta;
  operation.setKey(keyOffset, keyLength, cache.prefetch.hashOf(input, keyOffset, keyLength));
  if (!needsMutex(meta)) {
    thread.releaseForReads();
    if (!thread.isHolding && getOptimistically(meta)) return Flow.DONE;
  }
  thread.hold();
  const item = findItem(meta);
  if (item < NO_ITEM) {
    reply.put(OUTCOME_LINE[outcomeOf(item)]);
    return Flow.DONE;
  }
  countRead(thread, meta, item !== NO_ITEM);
  if (item !== NO_ITEM) return answerItem(conversation, meta, item, false);
  if (!meta.vivify) return answerMiss(meta);
  operation.begin(keyOffset, keyLength);
  if (cache.isRow(meta)) return leaseRow(meta);
  if (cache.findLease(operation)) return answerLease(meta, false);
  const stub = makeStub(meta);
  return stub === NO_ITEM ? answerMiss(meta) : answerItem(conversation, meta, stub, true);
}

/** Finds the item. Of a row that shall be touched, the database thread changes the expiry time. */
function findItem(meta: MetaRequest): ItemRef {
  const { cache, operation, memory } = meta.thread;
  if (!meta.touches || !cache.isRow(meta)) return cache.find(operation);
  operation.deadlineSec = deadlineSec(memory, meta.touchSeconds);
  const item = cache.getAndTouch(operation);
  return item === LOCKED_ITEM ? cache.find(operation) : item;
}

/** Whether a flag changes the item, or tells about its reads. */
function needsMutex(meta: MetaRequest): boolean {
  const { request } = meta.thread;
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

/** Writes replies of mg without the mutex. */
class MetaValueWriter implements FoundWriter<MetaRequest> {
  readonly marksHits: boolean;

  constructor(marksHits: boolean) {
    this.marksHits = marksHits;
  }

  writeMiss(meta: MetaRequest): boolean {
    putMiss(meta);
    return true;
  }

  write(meta: MetaRequest, found: Found): boolean {
    // The first reader of a stale item wins it, which changes the item.
    if (found.isStale || found.isWon) return false;
    const { reply } = meta.thread;
    putLine(meta, found, meta.value, false);
    if (!meta.value) return true;
    reply.foundValue(found);
    reply.crlf();
    return true;
  }
}

const MARKING = new MetaValueWriter(true);
const NOT_MARKING = new MetaValueWriter(false);

/**
 * Answers an mg that changes nothing, if the key can be read without the mutex.
 *
 * @returns False when the mutex is needed; then nothing has happened.
 */
function getOptimistically(meta: MetaRequest): boolean {
  const { thread } = meta;
  const { reply, operation, cache: { optimistic } } = thread;
  const writer = meta.noUpdate ? NOT_MARKING : MARKING;
  return optimistic.read(operation, reply, meta, writer);
}

/** The access that mg needs: some flags create an item, change its expiry time, or win the right to refresh it. */
export function metaGetAccess(conversation: RequestConversation): Access {
  const { request, input } = conversation.thread;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    const letter = input.bytes[request.wordStart[word]!];
    if (letter === FLAG.N || letter === FLAG.T || letter === FLAG.R) return Access.WRITE;
  }
  return Access.READ;
}

/** Creates a placeholder whose value has not been fetched yet (`mg` with N). The operation has its key. */
function makeStub(meta: MetaRequest): ItemRef {
  const { cache, operation } = meta.thread;
  // The deadline stays 0 until `putFlags` meets the flag N.
  operation.marks = meta.isBinary ? MARK_KEY_BINARY : 0;
  operation.explicit = meta.explicit;
  operation.explicitLow = meta.explicitLow;
  operation.explicitHigh = meta.explicitHigh;
  return cache.meta.makeStub(operation);
}

function answerMiss(meta: MetaRequest): Flow {
  const { thread } = meta;
  thread.cache.meta.noteMiss(thread.operation);
  putMiss(meta);
  return Flow.DONE;
}

function putMiss(meta: MetaRequest): void {
  const { reply } = meta.thread;
  if (meta.quiet) return;
  reply.put(META.EN);
  putEchoedFlags(meta);
  reply.crlf();
}

/** A row that is absent has no stub but a lease. */
function leaseRow(meta: MetaRequest): Flow {
  const { cache, operation, memory, settings } = meta.thread;
  operation.deadlineSec = deadlineSec(memory, meta.vivifySeconds || settings.leaseTimeSec);
  const outcome = cache.lease(operation);
  if (outcome === Outcome.NO_MEMORY) return answerMiss(meta);
  const wins = outcome === Outcome.LEASED && operation.remainSec === 0;
  if (wins) cache.findLease(operation);
  return answerLease(meta, wins);
}

/**
 * Answers that a key under a lease has no value.
 *
 * @param wins Whether the asker shall fetch it; else another client does.
 */
function answerLease(meta: MetaRequest, wins: boolean): Flow {
  const { cache, reply, operation } = meta.thread;
  cache.meta.noteMiss(operation);
  const { found } = cache.optimistic;
  operation.marks = meta.isBinary ? MARK_KEY_BINARY : 0;
  found.describeLease(operation, wins);
  putLine(meta, found, meta.value, wins);
  if (meta.value) reply.crlf();
  return Flow.DONE;
}

/** @param made Whether the item is a stub that was made just now. */
function answerItem(
  conversation: RequestConversation,
  meta: MetaRequest,
  item: ItemRef,
  made: boolean,
): Flow {
  const { thread } = conversation;
  const { cache, reply } = thread;
  const found = cache.describe(item);
  const withValue = meta.value &&
    !(meta.compare && found.idLow === meta.compareLow && found.idHigh === meta.compareHigh);
  putLine(meta, found, withValue, made);
  cache.meta.noteHit(thread.operation, item, meta.touches, !meta.noUpdate);
  if (!withValue) return Flow.DONE;
  if (!reply.value(cache, found)) {
    conversation.task = new SendTask(thread, item, true, null);
    return Flow.UNDER_WAY;
  }
  reply.crlf();
  return Flow.DONE;
}

/** Writes the line, in front of the value. @param made As in `answerItem`. */
function putLine(meta: MetaRequest, found: Found, withValue: boolean, made: boolean): void {
  const { reply } = meta.thread;
  if (withValue) {
    reply.put(META.VA_SPACE);
    reply.decimal(found.valueLength);
  } else {
    reply.put(META.HD);
  }
  const wins = putFlags(meta, found, made);
  putTokens(meta.thread, found, wins);
  reply.crlf();
}

/**
 * Writes the flags in the order asked for, and does in this order what they ask for. A lease is not changed.
 *
 * @returns Whether the asker shall fetch the value.
 */
function putFlags(meta: MetaRequest, found: Found, made: boolean): boolean {
  const { thread } = meta;
  const { cache, reply, request, memory } = thread;
  let wins = false;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, found.idLow, found.idHigh);
        break;
      case FLAG.f:
        putUint32Flag(reply, FLAG.f, found.clientFlags);
        break;
      case FLAG.s:
        putUint32Flag(reply, FLAG.s, found.valueLength);
        break;
      case FLAG.t:
        putTtl(thread, found.remainSec);
        break;
      case FLAG.h:
        putUint32Flag(reply, FLAG.h, found.wasFetched ? 1 : 0);
        break;
      case FLAG.l:
        putUint32Flag(reply, FLAG.l, found.idleSec);
        break;
      case FLAG.T:
        if (found.item === NO_ITEM) break;
        touch(meta, found.item, meta.touchSeconds);
        found.describe(found.item);
        break;
      case FLAG.N:
        if (!made) break;
        wins = true;
        if (found.item === NO_ITEM) break;
        cache.meta.setDeadline(found.item, deadlineSec(memory, meta.vivifySeconds));
        found.describe(found.item);
        break;
      case FLAG.R:
        wins ||= !made && !found.isWon &&
          isSoonerThan(found.deadlineSec, deadlineSec(memory, meta.recacheSeconds));
        break;
      default:
        putEchoedFlag(meta, word, found.isKeyBinary || isShownInBase64(meta));
    }
  }
  return wins;
}

function isSoonerThan(deadline: number, bound: number): boolean {
  return deadline !== 0 && deadline < bound;
}

/** Sets when the item dies, unless it is dirty and would live too long, or locked. */
export function touch(meta: MetaRequest, item: ItemRef, seconds: number): void {
  const { cache, operation, memory } = meta.thread;
  if (cache.isRow(meta)) return;
  operation.keyOffset = meta.keyOffset;
  operation.keyLength = meta.keyLength;
  cache.meta.touch(operation, item, deadlineSec(memory, seconds));
}

/** Z: a client fetches it already; U: an update token is out; X: it is stale; W: the asker shall fetch it. */
function putTokens({ cache, reply }: RequestThread, found: Found, wins: boolean): void {
  const { isWon, isStale } = found;
  const isUncacheable = found.item === NO_ITEM && found.isUncacheable;
  if (isWon) reply.put(isUncacheable ? META.LOST_UNCACHEABLE : META.LOST);
  if (isStale) reply.put(META.STALE);
  if (!wins && !(isStale && !isWon)) return;
  reply.put(META.WON);
  if (found.item !== NO_ITEM) cache.meta.markWon(found.item);
}

/** mn: marks the end of a pipeline. */
export function metaNoop(conversation: RequestConversation): Flow {
  conversation.thread.reply.put(REPLY.MN);
  return Flow.DONE;
}
