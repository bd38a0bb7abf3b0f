import { type ItemRef, NO_ITEM } from "../../store/cache.ts";
import type { MetaRequest } from "./request.ts";
import { deadlineSec } from "../../store/clock.ts";
import { MARK_KEY_BINARY } from "../../store/operation.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import { META, REFUSAL } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { touch } from "./get.ts";
import { putCode, putEchoedFlag, putEchoedFlags, putTtl, putU64Flag } from "./replies.ts";
import * as flagsModule from "./flags.ts";
import { FIRST_FLAG } from "./request.ts";

const { FLAG } = flagsModule;

// Hot path: no allocation.

/** Letters of modes (M). */
const MODE = { D: 0x44, I: 0x49, PLUS: 0x2b, MINUS: 0x2d } as const;

/** ma: increments or decrements. */
export function metaArithmetic(conversation: RequestConversation, meta: MetaRequest): Flow {
  const { thread } = conversation;
  const { reply, operation, cache } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    const isNamed = meta.isUnframed || refusal === REFUSAL.OPAQUE_TOO_LONG;
    reply.put(isNamed ? refusal : REFUSAL.BAD_ADD_FLAG);
    return Flow.DONE;
  }
  const { mode } = meta;
  const decrements = mode === MODE.D || mode === MODE.MINUS;
  if (!decrements && mode !== 0 && mode !== MODE.I && mode !== MODE.PLUS) {
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
  if (cache.isRow(meta)) {
    operation.touches = meta.touches;
    const seconds = meta.touches ? meta.touchSeconds : meta.vivify ? meta.vivifySeconds : 0;
    operation.deadlineSec = deadlineSec(thread.memory, seconds);
  }
  // Of another item the deadline stays 0 until `putNumberFlags` meets the flag N.
  const outcome = cache.incrDecr(operation, !decrements);
  answerArithmetic(meta, outcome);
  return Flow.DONE;
}

function answerArithmetic(meta: MetaRequest, outcome: Outcome): void {
  const { reply, operation } = meta.thread;
  if (outcome === Outcome.NO_MEMORY) {
    reply.put(meta.vivify ? REFUSAL.NO_MEMORY_FOR_NUMBER : REFUSAL.OUT_OF_MEMORY);
    return;
  }
  if (outcome !== Outcome.OK && outcome !== Outcome.STORED) {
    if (!putCode(meta.thread, outcome, meta.quiet)) return;
    putEchoedFlags(meta);
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
  putNumberFlags(meta, operation.item, made);
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

function putNumberFlags(meta: MetaRequest, item: ItemRef, made: boolean): void {
  const { thread } = meta;
  const { reply, cache, request, operation } = thread;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
        break;
      case FLAG.t:
        // The store has no item of a row.
        putTtl(thread, item === NO_ITEM ? -1 : cache.describe(item).remainSec);
        break;
      case FLAG.T:
        touch(meta, item, meta.touchSeconds);
        break;
      case FLAG.N:
        if (made) touch(meta, item, meta.vivifySeconds);
        break;
      default:
        putEchoedFlag(meta, word, meta.isBinary);
    }
  }
}
