import { deadlineSec } from "../../store/clock.ts";
import type { MetaRequest } from "./request.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import { REFUSAL } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { countDeletion } from "../detail_counts.ts";
import { putCode, putEchoedFlags } from "./replies.ts";
import { FIRST_FLAG } from "./request.ts";

// Hot path: no allocation.

/** md: deletes, or marks stale (I), or empties (x). */
export function metaDelete(conversation: RequestConversation, meta: MetaRequest): Flow {
  const { thread } = conversation;
  const { reply, operation, cache, memory } = thread;
  const refusal = meta.read(FIRST_FLAG);
  if (refusal !== null) {
    reply.put(refusal);
    return Flow.DONE;
  }
  meta.beginOperation(operation);
  operation.deadlineSec = meta.touches ? deadlineSec(memory, meta.touchSeconds) : 0;
  operation.clientFlags = meta.clientFlags;
  operation.deletedBy = "md";
  let outcome: Outcome;
  if (cache.isRow(meta)) {
    outcome = meta.empties || meta.stale ? cache.parking!.refuseMark() : cache.remove(operation);
  } else if (meta.empties) outcome = cache.meta.empty(operation, meta.stale);
  else if (meta.stale) outcome = cache.meta.markStale(operation, meta.touches);
  else outcome = cache.remove(operation);
  countDeletion(thread, meta);
  if (outcome === Outcome.NO_MEMORY) {
    reply.put(REFUSAL.OUT_OF_MEMORY);
    return Flow.DONE;
  }
  if (outcome === Outcome.EXISTS) cache.meta.noteRefusedDelete();
  if (!putCode(thread, outcome, meta.quiet)) return Flow.DONE;
  putEchoedFlags(meta);
  reply.crlf();
  return Flow.DONE;
}
