import type { ItemRef } from "../memory/item.ts";
import { Outcome } from "../outcome.ts";
import type { RequestSlot } from "./row_requests.ts";

/** Returned by reads that touch: another connection holds the item's lock. */
export const LOCKED_ITEM: ItemRef = -1;
/** Returned by reads: the row is on its way, and the connection must wait. */
export const PARKED_ITEM: ItemRef = -2;
/** Returned by reads: `RowParking.failure` says why there is no answer. */
export const FAILED_ITEM: ItemRef = -3;

/** Returns the outcome of a read that returned LOCKED_ITEM, PARKED_ITEM or FAILED_ITEM: what is below NO_ITEM. */
export function outcomeOf(item: ItemRef): Outcome {
  if (item === LOCKED_ITEM) return Outcome.LOCKED;
  return item === PARKED_ITEM ? Outcome.PARKED : Outcome.ROW_ERROR;
}

/** Returned by `answerOf`: there is no answer to wait for. */
export const NOT_ASKED: ItemRef = -4;

/** Requests of one connection in progress. */
export const REQUESTS_PER_CONNECTION_MAX = 64;

/** The requests that a connection waits for, the oldest first. Made when it parks; dropped when all are answered. */
export class RowSession {
  readonly slots: RequestSlot[] = [];
  /** Whether they write; else they read. */
  isWriting = false;
  /** Whether the only slot is no request yet: a write waits until other values leave their memory. */
  awaitsRoom = false;
}
