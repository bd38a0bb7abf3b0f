import { StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import { isExtending } from "../../store/claims/write_guard.ts";
import { type ItemRef, NO_ITEM, STATE } from "../../store/memory/item.ts";
import { Outcome } from "../../store/outcome.ts";
import { STAT } from "../../store/stats.ts";
import type { Conversation } from "../conversation.ts";
import { FLAG } from "./request.ts";
import { META, META_CODE, OUTCOME_LINE, REFUSAL } from "../replies.ts";
import { Flow } from "../request.ts";
import type { StoreReply } from "../tasks.ts";
import type { ThreadContext } from "../thread_context.ts";
import { putRequestFlags, putTtl, touch } from "./get.ts";
import { putKey, putOpaque, putU64Flag, putUint32Flag } from "./replies.ts";
import { readValueLength, storeBlock, swallowBlock } from "../text/write.ts";

// Hot path: no allocation, but for values that arrive in pieces.

/** Where flags begin: ms has a length in front of them. */
const FIRST_FLAG = 2;
const FIRST_SET_FLAG = 3;
const LENGTH_WORD = 2;

/** Letters of modes (M). */
const MODE = { A: 0x41, D: 0x44, E: 0x45, I: 0x49, P: 0x50, R: 0x52, S: 0x53 } as const;
const PLUS = 0x2b;
const MINUS = 0x2d;

// --- ms ------------------------------------------------------------------------------------------

/** ms: stores. */
export function metaSet(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { meta, operation, reply } = thread;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  let refusal = meta.read(FIRST_SET_FLAG);
  if (refusal !== null && meta.isUnframed) {
    reply.put(refusal);
    return Flow.DONE;
  }
  if (refusal === null && !readMode(thread)) refusal = REFUSAL.BAD_SET_MODE;
  if (refusal !== null) {
    reply.put(refusal);
    return swallowBlock(conversation);
  }
  prepareStore(thread);
  const flow = storeBlock(conversation, DIRECT);
  operation.askNothingSpecial();
  return flow;
}

/** Sets what the store does by the mode's letter. False when there is no such mode. */
function readMode({ meta, operation }: ThreadContext): boolean {
  switch (meta.mode) {
    case 0:
    case MODE.S:
      operation.mode = meta.compare ? StoreMode.CAS : StoreMode.SET;
      return true;
    case MODE.E:
      operation.mode = StoreMode.ADD;
      return true;
    case MODE.A:
      operation.mode = StoreMode.APPEND;
      return true;
    case MODE.P:
      operation.mode = StoreMode.PREPEND;
      return true;
    case MODE.R:
      operation.mode = meta.compare ? StoreMode.CAS : StoreMode.REPLACE;
      return true;
    default:
      return false;
  }
}

function prepareStore({ meta, operation, memory }: ThreadContext): void {
  const extending = isExtending(operation);
  meta.askForKeyAndIds(operation);
  operation.clientFlags = meta.clientFlags;
  operation.vivify = extending && meta.vivify;
  const seconds = operation.vivify ? meta.vivifySeconds : meta.touches ? meta.touchSeconds : 0;
  operation.deadlineSec = deadlineSec(memory, seconds);
  if (operation.mode === StoreMode.ADD) operation.compare = false;
  operation.allowOlder = meta.stale && operation.mode === StoreMode.CAS;
  // 0 is no id to give.
  if ((meta.explicitLow | meta.explicitHigh) === 0) operation.explicit = false;
  operation.marks = meta.isBinary ? STATE.KEY_BINARY : 0;
  operation.refusalRemoves = true;
}

/** Answers while the request is still there. */
class DirectReply implements StoreReply {
  stored(conversation: Conversation, outcome: Outcome): void {
    const { thread } = conversation;
    const { meta, request, reply } = thread;
    if (!putCode(thread, outcome, meta.quiet)) return;
    for (let word = FIRST_SET_FLAG; word < request.wordCount; word++) {
      switch (meta.letter(word)) {
        case FLAG.O:
          putOpaque(thread, word);
          break;
        case FLAG.k:
          putKey(thread, meta.isBinary);
          break;
        case FLAG.c:
          putStoredId(thread, outcome);
          break;
        case FLAG.s:
          putStoredSize(thread, outcome);
      }
    }
    reply.crlf();
  }

  badChunk(conversation: Conversation): void {
    putBadChunk(conversation.thread);
  }

  kept(conversation: Conversation): StoreReply {
    return new KeptReply(conversation.thread);
  }
}

const DIRECT: StoreReply = new DirectReply();

/** Answers when the value has arrived, long after the line. */
class KeptReply implements StoreReply {
  readonly #quiet: boolean;
  /** Bytes to be given back, or the letter of what is known only then. */
  readonly #parts: (Uint8Array | number)[] = [];

  constructor(thread: ThreadContext) {
    const { meta, request, reply } = thread;
    this.#quiet = meta.quiet;
    const { length } = reply;
    for (let word = FIRST_SET_FLAG; word < request.wordCount; word++) {
      const letter = meta.letter(word);
      if (letter === FLAG.c || letter === FLAG.s) this.#parts.push(letter);
      if (letter !== FLAG.O && letter !== FLAG.k) continue;
      // Written into the reply's free room, and taken back.
      if (letter === FLAG.O) putOpaque(thread, word);
      else putKey(thread, meta.isBinary);
      this.#parts.push(reply.region.bytes.slice(length, reply.length));
      reply.length = length;
    }
  }

  stored(conversation: Conversation, outcome: Outcome): void {
    const { thread } = conversation;
    const { reply } = thread;
    if (!putCode(thread, outcome, this.#quiet)) return;
    for (const part of this.#parts) {
      if (typeof part !== "number") reply.put(part);
      else if (part === FLAG.c) putStoredId(thread, outcome);
      else putStoredSize(thread, outcome);
    }
    reply.crlf();
  }

  badChunk(conversation: Conversation): void {
    putBadChunk(conversation.thread);
  }

  kept(): StoreReply {
    return this;
  }
}

/** Begins the answer to a change, or gives it whole. @returns Whether flags follow. */
function putCode(thread: ThreadContext, outcome: Outcome, quiet: boolean): boolean {
  const code = META_CODE[outcome];
  if (code === null) {
    thread.reply.put(OUTCOME_LINE[outcome]);
    return false;
  }
  if (quiet && code === META.HD) return false;
  thread.reply.put(code);
  return true;
}

function putStoredId({ reply, operation }: ThreadContext, outcome: Outcome): void {
  if (outcome === Outcome.STORED) putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
  else putUint32Flag(reply, FLAG.c, 0);
}

/** The size of what is stored now; of what was sent when nothing was stored. */
function putStoredSize({ reply, operation, cache }: ThreadContext, outcome: Outcome): void {
  const length = outcome === Outcome.STORED
    ? cache.valueLength(operation.item)
    : operation.valueLength;
  putUint32Flag(reply, FLAG.s, length);
}

/** Told in spite of q. */
function putBadChunk({ reply, memory }: ThreadContext): void {
  // Its memory had been found, and that is what cmd_set counts.
  memory.counters[STAT.cmd_set]! += 1;
  reply.put(REFUSAL.BAD_CHUNK);
}

// --- md ------------------------------------------------------------------------------------------

/** md: deletes, or marks stale (I), or empties (x). */
export function metaDelete(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { meta, reply, operation, cache, memory, input } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  if (thread.tunables.detailEnabled) {
    thread.prefixes.countDelete(input, meta.keyOffset, meta.keyLength);
  }
  meta.askForKeyAndIds(operation);
  operation.deadlineSec = meta.touches ? deadlineSec(memory, meta.touchSeconds) : 0;
  operation.clientFlags = meta.clientFlags;
  let outcome: Outcome;
  if (meta.empties) outcome = cache.meta.empty(operation, meta.stale);
  else if (meta.stale) outcome = cache.meta.markStale(operation, meta.touches);
  else outcome = cache.remove(operation);
  operation.askNothingSpecial();
  if (outcome === Outcome.NO_MEMORY) {
    reply.put(REFUSAL.OUT_OF_MEMORY);
    return Flow.DONE;
  }
  if (outcome === Outcome.EXISTS) memory.counters[STAT.delete_misses]! += 1;
  if (!putCode(thread, outcome, meta.quiet)) return Flow.DONE;
  putRequestFlags(thread, FIRST_FLAG);
  reply.crlf();
  return Flow.DONE;
}

// --- ma ------------------------------------------------------------------------------------------

/** ma: increments or decrements. */
export function metaArithmetic(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { meta, reply, operation, cache } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    const isNamed = meta.isUnframed || refusal === REFUSAL.OPAQUE_TOO_LONG;
    reply.put(isNamed ? refusal : REFUSAL.BAD_ADD_FLAG);
    return Flow.DONE;
  }
  const { mode } = meta;
  const decrements = mode === MODE.D || mode === MINUS;
  if (!decrements && mode !== 0 && mode !== MODE.I && mode !== PLUS) {
    reply.put(REFUSAL.BAD_ADD_MODE);
    return Flow.DONE;
  }
  meta.askForKeyAndIds(operation);
  // 0 is no id (memcached: do_add_delta).
  if ((meta.compareLow | meta.compareHigh) === 0) operation.compare = false;
  operation.deltaLow = meta.deltaLow;
  operation.deltaHigh = meta.deltaHigh;
  operation.vivify = meta.vivify;
  operation.initialLow = meta.initialLow;
  operation.initialHigh = meta.initialHigh;
  operation.clientFlags = 0;
  operation.marks = meta.isBinary ? STATE.KEY_BINARY : 0;
  // N sets it when its turn comes.
  operation.deadlineSec = 0;
  const outcome = cache.incrDecr(operation, !decrements);
  operation.askNothingSpecial();
  answerArithmetic(conversation, outcome);
  return Flow.DONE;
}

function answerArithmetic(conversation: Conversation, outcome: Outcome): void {
  const { thread } = conversation;
  const { meta, reply, operation } = thread;
  if (outcome === Outcome.NO_MEMORY) {
    reply.put(meta.vivify ? REFUSAL.NO_MEMORY_FOR_NUMBER : REFUSAL.OUT_OF_MEMORY);
    return;
  }
  if (outcome !== Outcome.OK && outcome !== Outcome.STORED) {
    if (!putCode(thread, outcome, meta.quiet)) return;
    putRequestFlags(thread, FIRST_FLAG);
    reply.crlf();
    return;
  }
  const start = reply.length;
  const made = outcome === Outcome.STORED;
  // The number goes behind the longest line first, because its length stands in front.
  const numberStart = start + LINE_LENGTH_MAX;
  let numberLength = 0;
  if (meta.value) {
    reply.length = numberStart;
    reply.decimalU64(operation.resultLow, operation.resultHigh);
    numberLength = reply.length - numberStart;
    reply.length = start;
    reply.put(META.VA_SPACE);
    reply.decimal(numberLength);
  } else {
    reply.put(META.HD);
  }
  putNumberFlags(conversation, operation.item, made);
  reply.crlf();
  if (meta.value) {
    const { bytes } = reply.region;
    bytes.copyWithin(reply.length, numberStart, numberStart + numberLength);
    reply.length += numberLength;
    reply.crlf();
  }
  if (meta.quiet) reply.length = start;
}

/** Room for `VA`, a key in base64, an opaque, and numbers. */
const LINE_LENGTH_MAX = 1024;

function putNumberFlags(conversation: Conversation, item: ItemRef, made: boolean): void {
  const { thread } = conversation;
  const { meta, reply, cache, request, operation } = thread;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
        break;
      case FLAG.t:
        putTtl(thread, cache.meta.remainSec(item));
        break;
      case FLAG.T:
        touch(conversation, item, meta.touchSeconds);
        break;
      case FLAG.N:
        if (made) touch(conversation, item, meta.vivifySeconds);
        break;
      case FLAG.O:
        putOpaque(thread, word);
        break;
      case FLAG.k:
        putKey(thread, meta.isBinary);
    }
  }
}

// --- me ------------------------------------------------------------------------------------------

/** me: what the store knows of an item, for debugging. */
export function metaDebug(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { meta, reply, cache, operation, memory, input } = thread;
  memory.counters[STAT.cmd_meta]! += 1;
  const refusal = meta.readKey(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  const item = cache.peek(input, meta.keyOffset, meta.keyLength);
  operation.keyOffset = meta.keyOffset;
  operation.keyLength = meta.keyLength;
  if (item !== NO_ITEM) putDebugLine(thread, item);
  else if (cache.findLease(operation)) putLeaseDebugLine(thread);
  else {
    reply.put(META.EN);
    reply.crlf();
  }
  return Flow.DONE;
}

function putDebugLine(thread: ThreadContext, item: ItemRef): void {
  const { reply, cache } = thread;
  reply.text("ME");
  putDebugKey(thread, cache.meta.isKeyBinary(item));
  reply.text(` exp=${cache.meta.remainSec(item)} la=${cache.meta.idleSec(item)} cas=`);
  reply.decimalU64(cache.idLow(item), cache.idHigh(item));
  const fetched = cache.meta.wasFetched(item) ? "yes" : "no";
  const { slabs } = cache.links;
  reply.text(` fetch=${fetched} cls=${slabs.classOf(item)} size=${cache.links.bytesOf(item)}`);
  reply.crlf();
}

function putLeaseDebugLine(thread: ThreadContext): void {
  const { reply, meta, operation } = thread;
  reply.text("ME");
  putDebugKey(thread, meta.isBinary);
  reply.text(` exp=${operation.remainSec} la=0 cas=`);
  reply.decimalU64(operation.idLow, operation.idHigh);
  reply.text(" fetch=no cls=0 size=0 kind=lease");
  reply.crlf();
}

function putDebugKey(thread: ThreadContext, binary: boolean): void {
  const { reply, meta, input } = thread;
  reply.text(" ");
  if (!binary) {
    reply.copy(input, meta.keyOffset, meta.keyLength);
    return;
  }
  const key = input.bytes.subarray(meta.keyOffset, meta.keyOffset + meta.keyLength);
  reply.text(btoa(String.fromCharCode(...key)));
}
