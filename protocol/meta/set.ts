import { isExtending, MARK_KEY_BINARY, type Operation, StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import { type ItemRef, NO_ITEM } from "../../store/cache.ts";
import { Outcome } from "../../store/outcome.ts";
import type { Conversation } from "../conversation.ts";
import { FLAG } from "./request.ts";
import { META, META_CODE, OUTCOME_LINE, REFUSAL } from "../replies.ts";
import { Flow } from "../request.ts";
import {
  afterBlock,
  Block,
  fillBlock,
  readValueLength,
  storeBlock,
  swallowBlock,
} from "../store_block.ts";
import type { StoreReply } from "../tasks.ts";
import type { ThreadContext } from "../thread_context.ts";
import { putRequestFlags, putTtl, touch } from "./get.ts";
import { putKey, putOpaque, putU64Flag, putUint32Flag } from "./replies.ts";

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
  const { meta, reply } = thread;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  let refusal = meta.read(FIRST_SET_FLAG);
  if (refusal !== null && meta.isUnframed) {
    reply.put(refusal);
    return Flow.DONE;
  }
  if (refusal === null && !beginStore(thread)) refusal = REFUSAL.BAD_SET_MODE;
  if (refusal !== null) {
    reply.put(refusal);
    return swallowBlock(conversation);
  }
  const outcome = storeBlock(conversation);
  if (outcome === Block.INCOMPLETE) return Flow.INCOMPLETE;
  if (outcome === Block.ARRIVING) return fillBlock(conversation, new LateReply(thread));
  putStored(thread, outcome);
  return afterBlock(conversation);
}

/** Sets the operation's mode by the letter of the flag M. Returns false when there is no such mode. */
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

/** Starts the operation that the flags ask for. Returns false when there is no such mode. */
function beginStore(thread: ThreadContext): boolean {
  const { meta, operation, memory } = thread;
  meta.beginOperation(operation);
  if (!readMode(thread)) return false;
  const extending = isExtending(operation);
  operation.clientFlags = meta.clientFlags;
  operation.vivify = extending && meta.vivify;
  const seconds = operation.vivify ? meta.vivifySeconds : meta.touches ? meta.touchSeconds : 0;
  operation.deadlineSec = deadlineSec(memory, seconds);
  if (operation.mode === StoreMode.ADD) operation.compare = false;
  operation.allowOlder = meta.stale && operation.mode === StoreMode.CAS;
  // 0 is no id to give.
  if ((meta.explicitLow | meta.explicitHigh) === 0) operation.explicit = false;
  operation.marks = meta.isBinary ? MARK_KEY_BINARY : 0;
  operation.refusalRemoves = true;
  return true;
}

function putStored(thread: ThreadContext, outcome: Outcome): void {
  const { meta, operation, request, reply } = thread;
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
        putStoredId(thread, operation, outcome);
        break;
      case FLAG.s:
        putStoredSize(thread, operation, outcome);
    }
  }
  reply.crlf();
}

/** Answers a store whose value arrived in pieces, when the request line is gone. */
class LateReply implements StoreReply {
  readonly #quiet: boolean;
  /** Bytes of the request to return, or the letter of a flag whose number is known only after the store. */
  readonly #parts: (Uint8Array | number)[] = [];

  constructor(thread: ThreadContext) {
    const { meta, request, reply } = thread;
    this.#quiet = meta.quiet;
    const { length } = reply;
    for (let word = FIRST_SET_FLAG; word < request.wordCount; word++) {
      const letter = meta.letter(word);
      if (letter === FLAG.c || letter === FLAG.s) this.#parts.push(letter);
      if (letter !== FLAG.O && letter !== FLAG.k) continue;
      // The reply's free room serves as scratch space.
      if (letter === FLAG.O) putOpaque(thread, word);
      else putKey(thread, meta.isBinary);
      this.#parts.push(reply.region.bytes.slice(length, reply.length));
      reply.length = length;
    }
  }

  put(thread: ThreadContext, operation: Operation, outcome: Outcome): void {
    const { reply } = thread;
    if (!putCode(thread, outcome, this.#quiet)) return;
    for (const part of this.#parts) {
      if (typeof part !== "number") reply.put(part);
      else if (part === FLAG.c) putStoredId(thread, operation, outcome);
      else putStoredSize(thread, operation, outcome);
    }
    reply.crlf();
  }
}

/** Puts the code of an outcome, or its whole line. @returns Whether flags follow. */
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

function putStoredId({ reply }: ThreadContext, operation: Operation, outcome: Outcome): void {
  if (outcome === Outcome.STORED) putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
  else putUint32Flag(reply, FLAG.c, 0);
}

/** s: the stored value's length; that of the value in the request when nothing was stored. */
function putStoredSize(
  { reply, cache }: ThreadContext,
  operation: Operation,
  outcome: Outcome,
): void {
  const length = outcome === Outcome.STORED
    ? cache.valueLength(operation.item)
    : operation.valueLength;
  putUint32Flag(reply, FLAG.s, length);
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
  meta.beginOperation(operation);
  operation.deadlineSec = meta.touches ? deadlineSec(memory, meta.touchSeconds) : 0;
  operation.clientFlags = meta.clientFlags;
  let outcome: Outcome;
  if (meta.empties) outcome = cache.meta.empty(operation, meta.stale);
  else if (meta.stale) outcome = cache.meta.markStale(operation, meta.touches);
  else outcome = cache.remove(operation);
  if (outcome === Outcome.NO_MEMORY) {
    reply.put(REFUSAL.OUT_OF_MEMORY);
    return Flow.DONE;
  }
  if (outcome === Outcome.EXISTS) cache.meta.noteRefusedDelete();
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
  meta.beginOperation(operation);
  // 0 is no id (memcached: do_add_delta).
  if ((meta.compareLow | meta.compareHigh) === 0) operation.compare = false;
  operation.deltaLow = meta.deltaLow;
  operation.deltaHigh = meta.deltaHigh;
  operation.vivify = meta.vivify;
  operation.initialLow = meta.initialLow;
  operation.initialHigh = meta.initialHigh;
  operation.marks = meta.isBinary ? MARK_KEY_BINARY : 0;
  // The deadline stays 0 until `putNumberFlags` meets the flag N.
  const outcome = cache.incrDecr(operation, !decrements);
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
  const { meta, reply, cache, operation, input } = thread;
  cache.meta.noteDebug();
  const refusal = meta.readKey(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  const item = cache.peek(input, meta.keyOffset, meta.keyLength);
  operation.begin(meta.keyOffset, meta.keyLength);
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
  const { inspector } = cache;
  reply.text(` fetch=${fetched} cls=${inspector.classOf(item)} size=${inspector.bytes(item)}`);
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
