import type { Memory } from "../memory/memory.ts";
import { WAITER } from "../memory/waiter_layout.ts";
import type { Operation } from "../operation.ts";
import type { TokenRef, UpdateTokens } from "./update_tokens.ts";
import { NO_WAITER, type WaiterRow, Waiters, WaiterState } from "./waiters.ts";

/** All wait in one queue: the journal writes records in their order. */
const QUEUE = 0;

/** Connections that wait until the journal has their update tokens on the disk. */
export class TokenWaiters extends Waiters {
  constructor(memory: Memory) {
    super(memory, memory.shared.tokenWaiters, 1);
  }

  /**
   * Makes `operation.owner` wait for a token, whose id is in `operation.idLow/High`.
   *
   * @param position How far the journal must have come, in bytes of its queue of records.
   * @returns The waiter, or NO_WAITER when every row is taken.
   */
  enqueue(operation: Operation, token: TokenRef, position: number): WaiterRow {
    const waiter = this.append(QUEUE, operation.owner, operation.thread);
    if (waiter === NO_WAITER) return NO_WAITER;
    const row = this.row(waiter);
    this.setId(waiter, operation.idLow, operation.idHigh);
    this.words[row + WAITER.TOKEN] = token;
    this.words[row + WAITER.POSITION] = position;
    return waiter;
  }

  /** Ends the waiting of all connections whose records lie before `position`. */
  settle(position: number, tokens: UpdateTokens): void {
    const { words } = this;
    for (;;) {
      const waiter = this.first(QUEUE);
      if (waiter === NO_WAITER) return;
      const row = this.row(waiter);
      // Positions wrap.
      if (((words[row + WAITER.POSITION]! - position) | 0) > 0) return;
      const token = words[row + WAITER.TOKEN]!;
      // Another token may have the record, but not the id.
      const isOut = tokens.hasId(token, this.idLow(waiter), this.idHigh(waiter)) &&
        !tokens.isPending(token);
      this.finish(waiter, isOut ? WaiterState.GRANTED : WaiterState.NOT_FOUND);
    }
  }
}
