import type { ConnectionId, ConnectionTable } from "../../store/connections.ts";
import type { Access } from "./access.ts";

/** A user's name and password, as a client sent them. */
export interface Credentials {
  readonly user: Uint8Array;
  readonly password: Uint8Array;
}

/** The longest name and the longest password that are compared, in bytes: users have shorter ones. */
export const CREDENTIAL_BYTES_MAX = 1024;

// A word a connection: 0: asks nothing; above 0: the id of the connection that waits for its verdict; below 0: the
// verdict, -1 - Access.

/** Makes the words that all threads share, zeros, for `rows` connections. */
export function createVerdicts(rows: number): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * rows);
}

/** For the thread that checks passwords: hands a verdict to the thread that serves the connection. */
export class Verdicts {
  readonly #words: Int32Array;
  readonly #connections: ConnectionTable;

  constructor(shared: SharedArrayBuffer, connections: ConnectionTable) {
    this.#words = new Int32Array(shared);
    this.#connections = connections;
  }

  /** Whether the connection still waits. */
  isAwaited(owner: ConnectionId): boolean {
    return Atomics.load(this.#words, this.#connections.rowOf(owner)) === owner;
  }

  /** @returns Whether the connection still waits: then its thread must be woken. */
  deliver(owner: ConnectionId, access: Access): boolean {
    const row = this.#connections.rowOf(owner);
    return Atomics.compareExchange(this.#words, row, owner, -1 - access) === owner;
  }
}

/** One thread's side: begins the password checks of its connections, and takes the verdicts. */
export class PasswordChecks {
  readonly #words: Int32Array;
  readonly #connections: ConnectionTable;
  readonly #ask: (owner: ConnectionId, credentials: Credentials) => void;
  readonly #waiting = new Set<ConnectionId>();

  /** @param ask Begins a check. Must return at once. */
  constructor(
    shared: SharedArrayBuffer,
    connections: ConnectionTable,
    ask: (owner: ConnectionId, credentials: Credentials) => void,
  ) {
    this.#words = new Int32Array(shared);
    this.#connections = connections;
    this.#ask = ask;
  }

  /** Begins a check. The connection must not wait for another one. */
  begin(owner: ConnectionId, credentials: Credentials): void {
    Atomics.store(this.#words, this.#connections.rowOf(owner), owner);
    this.#waiting.add(owner);
    this.#ask(owner, credentials);
  }

  /** Returns the access that was granted, Access.NONE for a wrong password, or null while there is no verdict. */
  verdictOf(owner: ConnectionId): Access | null {
    const word = Atomics.load(this.#words, this.#connections.rowOf(owner));
    return word < 0 ? -1 - word as Access : null;
  }

  /** Ends a check: the verdict has been taken, or the connection is gone. */
  end(owner: ConnectionId): void {
    this.#waiting.delete(owner);
    Atomics.store(this.#words, this.#connections.rowOf(owner), 0);
  }

  /** Calls `visit` with the connections that have a verdict, with each once. */
  takeReady(visit: (connection: ConnectionId) => void): void {
    for (const owner of this.#waiting) {
      if (this.verdictOf(owner) === null) continue;
      this.#waiting.delete(owner);
      visit(owner);
    }
  }
}
