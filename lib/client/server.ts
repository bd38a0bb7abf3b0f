import { type Address, type Link, nameOf } from "./address.ts";
import { Connection, type EndReason } from "./connection.ts";
import { ConnectionError } from "./errors.ts";
import type { Request } from "./wire.ts";

/** Pause before the next attempt to reach a server: the first one, doubled with each failure, and the longest. */
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 5_000;

/** Called when a connection has ended: its server, and why. */
export type OnDown = (server: string, reason: EndReason) => void;

/**
 * One server: its connections, made when they are needed. While it is down requests fail at once, and one attempt is
 * made after each pause.
 */
export class Server {
  readonly name: string;
  readonly #address: Address;
  readonly #link: Link;
  readonly #onDown: OnDown;
  readonly #connections: (Connection | undefined)[];
  readonly #sections = new Set<Connection>();
  #turn = 0;
  #failures = 0;
  #retryAtMs = 0;
  #isClosed = false;

  /** @param connections Kept at the same time. */
  constructor(address: Address, link: Link, connections: number, onDown: OnDown) {
    this.name = nameOf(address);
    this.#address = address;
    this.#link = link;
    this.#onDown = onDown;
    this.#connections = new Array(connections).fill(undefined);
  }

  /** Sends a request on the next connection. */
  send<Result>(request: Request<Result>): Promise<Result> {
    const turn = this.#turn = (this.#turn + 1) % this.#connections.length;
    let connection = this.#connections[turn];
    if (connection === undefined || connection.isEnded) {
      const reason = this.#isClosed ? "the client was closed" : this.#pauseReason();
      if (reason !== undefined) {
        const [command = ""] = request.line.split(" ", 1);
        const place = { server: this.name, command, key: request.key };
        return Promise.reject(new ConnectionError(place, reason));
      }
      connection = this.#connect();
      this.#connections[turn] = connection;
    }
    return connection.send(request);
  }

  /**
   * Makes a connection for one caller: a lock belongs to its connection.
   *
   * @param onEnd Called when it has ended.
   */
  section(onEnd: () => void): Connection {
    const connection: Connection = this.#connect(() => {
      this.#sections.delete(connection);
      onEnd();
    });
    this.#sections.add(connection);
    if (this.#isClosed) void connection.close();
    return connection;
  }

  /** Closes all connections; their requests fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const open = [...this.#connections, ...this.#sections];
    await Promise.all(open.map((connection) => connection?.close()));
  }

  #pauseReason(): string | undefined {
    const leftMs = Math.ceil(this.#retryAtMs - performance.now());
    return leftMs > 0 ? `the server is down; next attempt in ${leftMs} ms` : undefined;
  }

  #connect(onEnd?: () => void): Connection {
    return new Connection(this.#address, this.#link, (reason, wasReady) => {
      if (reason !== "closed") this.#ended(wasReady && reason === "failed", reason);
      onEnd?.();
    });
  }

  /** @param wasServing The connection worked before it ended: the next attempt needs no pause. */
  #ended(wasServing: boolean, reason: EndReason): void {
    this.#failures = wasServing ? 0 : this.#failures + 1;
    const pauseMs = this.#failures === 0
      ? 0
      : Math.min(RETRY_FIRST_MS * 2 ** (this.#failures - 1), RETRY_MAX_MS);
    // Clients that lost the same server must not come back at the same time.
    this.#retryAtMs = performance.now() + pauseMs * (0.5 + Math.random() / 2);
    this.#onDown(this.name, reason);
  }
}
