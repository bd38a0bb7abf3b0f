import { isExtending, MARK_KEY_BINARY, type Operation } from "../../store/operation.ts";
import type { MetaRequest } from "./request.ts";
import * as operationModule from "../../store/operation.ts";
import { NO_ITEM } from "../../store/cache.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import * as flagsModule from "./flags.ts";
import { REFUSAL } from "../reply/replies.ts";
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
import type { RequestThread } from "../thread_context.ts";
import { putCode, putEchoedFlag, putU64Flag, putUint32Flag } from "./replies.ts";

const { FLAG } = flagsModule;
const { StoreMode } = operationModule;

// Hot path: no allocation, but for values that arrive in pieces.

const LENGTH_WORD = 2;
/** The first word that can be a flag; the word before it is the length. */
const FIRST_SET_FLAG = 3;

/** Letters of modes (M). */
const MODE = { A: 0x41, E: 0x45, P: 0x50, R: 0x52, S: 0x53 } as const;

/** ms: stores. */
export function metaSet(conversation: RequestConversation, meta: MetaRequest): Flow {
  const { thread } = conversation;
  const { reply } = thread;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  let refusal = meta.read(FIRST_SET_FLAG);
  if (refusal !== null && meta.isUnframed) {
    reply.put(refusal);
    return Flow.DONE;
  }
  if (refusal === null && !beginStore(meta)) refusal = REFUSAL.BAD_SET_MODE;
  if (refusal !== null) {
    reply.put(refusal);
    return swallowBlock(conversation);
  }
  const outcome = storeBlock(conversation);
  if (outcome === Block.INCOMPLETE) return Flow.INCOMPLETE;
  if (outcome === Block.ARRIVING) return fillBlock(conversation, new LateReply(meta));
  putStored(meta, outcome);
  return afterBlock(conversation);
}

/** Sets the operation's mode by the letter of the flag M. Returns false when there is no such mode. */
function readMode(meta: MetaRequest): boolean {
  const { operation } = meta.thread;
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
function beginStore(meta: MetaRequest): boolean {
  const { operation, memory } = meta.thread;
  meta.beginOperation(operation);
  if (!readMode(meta)) return false;
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

function putStored(meta: MetaRequest, outcome: Outcome): void {
  const { thread } = meta;
  const { operation, request, reply } = thread;
  if (!putCode(thread, outcome, meta.quiet)) return;
  for (let word = FIRST_SET_FLAG; word < request.wordCount; word++) {
    switch (meta.letter(word)) {
      case FLAG.c:
        putStoredId(thread, operation, outcome);
        break;
      case FLAG.s:
        putStoredSize(thread, operation, outcome);
        break;
      default:
        putEchoedFlag(meta, word, meta.isBinary);
    }
  }
  reply.crlf();
}

/** Answers a store whose value arrived in pieces, when the request line is gone. */
class LateReply implements StoreReply {
  readonly #quiet: boolean;
  /** Bytes of the request to return, or the letter of a flag whose number is known only after the store. */
  readonly #parts: (Uint8Array | number)[] = [];

  constructor(meta: MetaRequest) {
    const { request, reply } = meta.thread;
    this.#quiet = meta.quiet;
    const { length } = reply;
    for (let word = FIRST_SET_FLAG; word < request.wordCount; word++) {
      const letter = meta.letter(word);
      if (letter === FLAG.c || letter === FLAG.s) this.#parts.push(letter);
      if (letter !== FLAG.O && letter !== FLAG.k) continue;
      // The reply's free room serves as scratch space.
      putEchoedFlag(meta, word, meta.isBinary);
      this.#parts.push(reply.region.bytes.slice(length, reply.length));
      reply.length = length;
    }
  }

  put(thread: RequestThread, operation: Operation, outcome: Outcome): void {
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

function putStoredId({ reply }: RequestThread, operation: Operation, outcome: Outcome): void {
  if (outcome === Outcome.STORED) putU64Flag(reply, FLAG.c, operation.idLow, operation.idHigh);
  else putUint32Flag(reply, FLAG.c, 0);
}

/** s: the stored value's length; the length in the request when nothing was stored. */
function putStoredSize(
  { reply, cache }: RequestThread,
  operation: Operation,
  outcome: Outcome,
): void {
  // The store has no item of a row.
  const length = outcome === Outcome.STORED && operation.item !== NO_ITEM
    ? cache.valueLength(operation.item)
    : operation.valueLength;
  putUint32Flag(reply, FLAG.s, length);
}
