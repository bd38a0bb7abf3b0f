import { Outcome } from "../../store/outcome.ts";
import type { BinaryRequest } from "./request.ts";
import { OUTCOME_LINE, REFUSAL, REPLY, STATUS_TEXT } from "../reply/replies.ts";
import type { ReplyBuffer } from "../reply/reply_buffer.ts";
import type { Settings } from "../settings.ts";
import { Status } from "../reply/binary_status.ts";
import * as binaryHeaderModule from "../binary_header.ts";

const { HEADER_LENGTH, REPLY_MAGIC } = binaryHeaderModule;

// Hot path: no allocation.

/** The status that says how an operation ended. */
export const OUTCOME_STATUS: Record<Outcome, Status> = {
  [Outcome.OK]: Status.OK,
  [Outcome.STORED]: Status.OK,
  [Outcome.NOT_STORED]: Status.NOT_STORED,
  [Outcome.EXISTS]: Status.EXISTS,
  [Outcome.NOT_FOUND]: Status.NOT_FOUND,
  [Outcome.DELETED]: Status.OK,
  [Outcome.TOUCHED]: Status.OK,
  [Outcome.LOCKED]: Status.LOCKED,
  [Outcome.TOO_LARGE]: Status.TOO_LARGE,
  [Outcome.NO_MEMORY]: Status.NO_MEMORY,
  [Outcome.NOT_NUMERIC]: Status.NOT_NUMERIC,
  [Outcome.NOT_LOCKED]: Status.NOT_LOCKED,
  [Outcome.TOO_MANY_LOCKS]: Status.NO_MEMORY,
  // Nothing in the binary protocol waits.
  [Outcome.WAITING]: Status.LOCKED,
  [Outcome.LEASED]: Status.LEASED,
  [Outcome.UNCACHEABLE]: Status.UNCACHEABLE,
  [Outcome.TOKENS_OFF]: Status.NOT_SUPPORTED,
  [Outcome.TOO_MANY_TOKENS]: Status.NO_MEMORY,
  [Outcome.NOT_PERSISTED]: Status.TEMPORARY_FAILURE,
  // Values of the binary protocol have no end marker.
  [Outcome.BAD_CHUNK]: Status.INVALID,
  [Outcome.PARKED]: Status.INTERNAL_ERROR,
  [Outcome.ROW_ERROR]: Status.INTERNAL_ERROR,
  [Outcome.TOO_MANY_REQUESTS]: Status.NO_MEMORY,
};

/** Sets this thread's reply to a change of a key that another connection has locked: the value of `-o lock_reply`. */
export function setLockReply(reply: Settings["lockReply"]): void {
  const isOwn = reply === "locked";
  OUTCOME_LINE[Outcome.LOCKED] = isOwn ? REPLY.LOCKED : REFUSAL.LOCKED;
  OUTCOME_STATUS[Outcome.LOCKED] = isOwn ? Status.LOCKED : Status.BUSY;
}

/**
 * Writes the header of a reply. The body of `extrasLength + keyLength + valueLength` bytes follows.
 *
 * @param idLow The cas id; 0 without an item.
 */
export function putHeader(
  reply: ReplyBuffer,
  request: BinaryRequest,
  status: Status,
  extrasLength: number,
  keyLength: number,
  valueLength: number,
  idLow: number,
  idHigh: number,
): void {
  const { view } = reply.region;
  const at = reply.length;
  view.setInt32(at, (REPLY_MAGIC << 24) | (request.opcode << 16) | keyLength);
  view.setInt32(at + 4, (extrasLength << 24) | status);
  view.setInt32(at + 8, extrasLength + keyLength + valueLength);
  view.setInt32(at + 12, request.opaque);
  view.setInt32(at + 16, idHigh);
  view.setInt32(at + 20, idLow);
  reply.length = at + HEADER_LENGTH;
}

/** Writes a reply without a body. */
export function putDone(
  reply: ReplyBuffer,
  request: BinaryRequest,
  idLow: number,
  idHigh: number,
): void {
  putHeader(reply, request, Status.OK, 0, 0, 0, idLow, idHigh);
}

/** Writes a refusal, whose body is a text. */
export function putError(reply: ReplyBuffer, request: BinaryRequest, status: Status): void {
  const text = STATUS_TEXT[status];
  putHeader(reply, request, status, 0, 0, text.length, 0, 0);
  reply.put(text);
}
