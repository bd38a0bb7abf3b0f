// Hot path: no allocation.
import type { NativeConnection } from "./connection.ts";

/** Connections that have more to do, first in, first out. A connection is in it at most once. */
export class RunQueue {
  length = 0;
  #first: NativeConnection | null = null;
  #last: NativeConnection | null = null;

  add(connection: NativeConnection): void {
    if (connection.unfinished) return;
    connection.unfinished = true;
    if (this.#last === null) this.#first = connection;
    else this.#last.next = connection;
    this.#last = connection;
    this.length++;
  }

  /** Removes and returns the first connection, which may be closed. The queue must not be empty. */
  take(): NativeConnection {
    const connection = this.#first!;
    this.#first = connection.next;
    if (this.#first === null) this.#last = null;
    connection.next = null;
    connection.unfinished = false;
    this.length--;
    return connection;
  }
}
