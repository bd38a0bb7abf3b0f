import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { putItem } from "./read.ts";
import { leaseDeadlineSec } from "../text/lease.ts";
import { countDeletion, countRead } from "../detail_counts.ts";

// Hot path: no allocation.

/** Flags of a lease, and how many seconds are left of it. */
const LEASE_EXTRAS_LENGTH = 8;
/** An int32 stands for a Unix time until 2038; what is above is refused. */
const SECONDS_MAX = 0x7fffffff;

/** GetSS and GetSSK: the value, or the right to fill it. */
export function getss(
  conversation: RequestConversation,
  binary: BinaryRequest,
  withKey: boolean,
): Flow {
  const { thread } = conversation;
  const { cache, operation, reply } = thread;
  if (!readDeadline(conversation, binary)) return Flow.DONE;
  cache.prefetch.addHash(operation);
  const outcome = cache.getOrLease(operation);
  countRead(thread, operation, outcome === Outcome.OK);
  if (outcome === Outcome.OK) return putItem(conversation, binary, operation.item, withKey);
  if (outcome === Outcome.LEASED) putLease(conversation, binary, withKey);
  else putError(reply, binary, OUTCOME_STATUS[outcome]);
  return Flow.DONE;
}

/**
 * DeleteSS: removes what there is, and gives the asker the right to fill it. The quiet form tells
 * only what went wrong.
 */
export function deletess(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const { cache, operation, reply } = thread;
  if (!readDeadline(conversation, binary)) return Flow.DONE;
  const outcome = cache.removeAndLease(operation);
  countDeletion(thread, operation);
  const status = OUTCOME_STATUS[outcome];
  if (status !== Status.OK && status !== Status.NOT_FOUND) putError(reply, binary, status);
  else if (!binary.quiet) {
    putHeader(reply, binary, status, 0, 0, 0, operation.idLow, operation.idHigh);
  }
  return Flow.DONE;
}

/** Reads the lease time in the extras. Answers and returns false when it is invalid or leases are off. */
function readDeadline(conversation: RequestConversation, binary: BinaryRequest): boolean {
  const { thread } = conversation;
  const { input, operation, reply, settings } = thread;
  if (settings.leaseMask === 0) {
    putError(reply, binary, Status.UNKNOWN_COMMAND);
    return false;
  }
  const seconds = input.view.getUint32(binary.extrasOffset);
  operation.deadlineSec = seconds > SECONDS_MAX ? 0 : leaseDeadlineSec(thread, seconds);
  if (operation.deadlineSec !== 0 && !conversation.udp) return true;
  putError(reply, binary, Status.INVALID);
  return false;
}

function putLease(
  conversation: RequestConversation,
  binary: BinaryRequest,
  withKey: boolean,
): void {
  const { operation, reply, input, settings } = conversation.thread;
  const keyLength = withKey ? operation.keyLength : 0;
  const remainSec = operation.remainSec < 0 ? settings.leaseTimeSec : operation.remainSec;
  putHeader(
    reply,
    binary,
    Status.LEASED,
    LEASE_EXTRAS_LENGTH,
    keyLength,
    0,
    operation.idLow,
    operation.idHigh,
  );
  const { view } = reply.region;
  view.setInt32(reply.length, settings.leaseFlag);
  view.setInt32(reply.length + 4, remainSec);
  reply.length += LEASE_EXTRAS_LENGTH;
  if (withKey) reply.copy(input, operation.keyOffset, keyLength);
}
