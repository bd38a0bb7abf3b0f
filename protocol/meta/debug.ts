import { type ItemRef, NO_ITEM } from "../../store/cache.ts";
import type { MetaRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { META } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { FIRST_FLAG } from "./request.ts";
import { isShownInBase64 } from "./replies.ts";

/** me: what the store knows of an item, for debugging. */
export function metaDebug(conversation: RequestConversation, meta: MetaRequest): Flow {
  const { thread } = conversation;
  const { reply, cache, operation } = thread;
  cache.meta.noteDebug();
  const refusal = meta.readKey(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  operation.begin(meta.keyOffset, meta.keyLength);
  cache.prefetch.addHash(operation);
  const item = cache.peek(operation);
  const tokens = cache.tokens.countOf(operation);
  if (item !== NO_ITEM) putDebugLine(meta, item);
  else if (tokens > 0) putTokenDebugLine(meta, tokens);
  else if (!cache.inspector.isQuarantined && cache.findLease(operation)) putLeaseDebugLine(meta);
  else {
    reply.put(META.EN);
    reply.crlf();
  }
  return Flow.DONE;
}

function putDebugLine(meta: MetaRequest, item: ItemRef): void {
  const { reply, cache } = meta.thread;
  const found = cache.describe(item);
  reply.text("ME");
  putDebugKey(meta, found.isKeyBinary || isShownInBase64(meta));
  reply.text(` exp=${found.remainSec} la=${found.idleSec} cas=`);
  reply.decimalU64(found.idLow, found.idHigh);
  const fetched = found.wasFetched ? "yes" : "no";
  const { inspector } = cache;
  reply.text(` fetch=${fetched} cls=${inspector.classOf(item)} size=${inspector.bytes(item)}`);
  reply.crlf();
}

function putLeaseDebugLine(meta: MetaRequest): void {
  const { reply, operation } = meta.thread;
  reply.text("ME");
  putDebugKey(meta, meta.isBinary);
  reply.text(` exp=${operation.remainSec} la=0 cas=`);
  reply.decimalU64(operation.idLow, operation.idHigh);
  reply.text(" fetch=no cls=0 size=0 kind=lease");
  reply.crlf();
}

function putTokenDebugLine(meta: MetaRequest, tokens: number): void {
  const { reply } = meta.thread;
  reply.text("ME");
  putDebugKey(meta, meta.isBinary);
  reply.text(` exp=0 la=0 cas=0 fetch=no cls=0 size=0 tokens=${tokens}`);
  reply.crlf();
}

function putDebugKey(meta: MetaRequest, binary: boolean): void {
  const { reply, input } = meta.thread;
  reply.text(" ");
  if (!binary) {
    reply.copy(input, meta.keyOffset, meta.keyLength);
    return;
  }
  const key = input.bytes.subarray(meta.keyOffset, meta.keyOffset + meta.keyLength);
  reply.text(btoa(String.fromCharCode(...key)));
}
