import { assert } from "../assert.ts";
import { clearTimeout, setTimeout } from "node:timers";
import { type Address, type Link, nameOf } from "./address.ts";
import { Connection } from "./connection.ts";
import { ConnectionError } from "../errors.ts";
import * as requests from "../requests.ts";
import type { Request } from "./wire.ts";

/** Receives the events of a server. */
export interface ServerWatcher {
  /** A connection has ended without `close`. */
  lost(): void;
  /** A request is the one that tries whether a server that was down answers. */
  tries(): void;
  /** The server has failed, and was not down before. */
  down(server: string, error: ConnectionError): void;
  /** The server has executed a request, and was down before. */
  up(server: string): void;
}

/**
 * One server: its connections, made when they are needed. While it is down requests fail at once, and after each pause
 * one request tries whether it answers: nobody else waits for that. A server that was silent is asked aside, for which
 * one request waits a moment.
 */
export class Server {
  readonly name: string;
  readonly #address: Address;
  readonly #link: Link;
  readonly #watcher: ServerWatcher;
  readonly #connections: (Connection | undefined)[];
  readonly #sections = new Set<Connection>();
  #turn = 0;
  /** Failures since a connection served. */
  #failures = 0;
  /** Counts failures. One of a connection that was made before the last failure is no failure of its own. */
  #era = 0;
  #retryAtMs = 0;
  /** Whether the last failure was that nothing came in time: whoever tries waits for as long. */
  #wasSilent = false;
  /** Made after a failure, and not yet in order. */
  #probe: Connection | undefined;
  #isClosed = false;
  #isUnref = false;

  /** @param connections Kept at the same time. */
  constructor(address: Address, link: Link, connections: number, watcher: ServerWatcher) {
    this.name = nameOf(address);
    this.#address = address;
    this.#link = link;
    this.#watcher = watcher;
    this.#connections = new Array(connections).fill(undefined);
  }

  /** Whether requests are sent: the server has not failed since it served, and it is not closed. */
  get isUp(): boolean {
    return this.#failures === 0 && !this.#isClosed;
  }

  /** Sends a request on the next connection. */
  send<Result>(request: Request<Result>): Promise<Result> {
    const probe = this.#probe;
    // Its request has got an error for a reply: neither a failure nor a service, so the next request tries.
    if (probe?.isIdle === true) {
      this.#watcher.tries();
      return probe.send(request);
    }
    const turn = this.#turn = (this.#turn + 1) % this.#connections.length;
    let connection = this.#connections[turn];
    if (connection === undefined || connection.isEnded || connection === this.#probe) {
      if (this.#isToBeAsked) return this.askAside().then(() => this.send(request));
      const error = this.#whyAway(request);
      if (error !== undefined) return Promise.reject(error);
      connection = this.#connect();
      this.#connections[turn] = connection;
      assert(this.#probe === undefined, "one connection at a time tries a server that was down");
      if (this.#failures > 0) {
        this.#probe = connection;
        this.#watcher.tries();
      }
    }
    return connection.send(request);
  }

  /**
   * Makes a connection for one caller: a lock belongs to its connection.
   *
   * @param request What the caller will send.
   * @param onEnd Called when it has ended.
   * @throws ConnectionError The server is down.
   */
  section(request: Request<unknown>, onEnd: () => void): Connection {
    const error = this.#whyAway(request);
    if (error !== undefined) throw error;
    const connection: Connection = this.#connect(() => {
      const wasOpen = this.#sections.delete(connection);
      assert(wasOpen, "a section ends once");
      onEnd();
    });
    if (this.#failures > 0) this.#probe = connection;
    this.#sections.add(connection);
    return connection;
  }

  /** Lets the process end while no request waits for a reply. */
  unref(): void {
    this.#isUnref = true;
    for (const connection of [...this.#connections, ...this.#sections]) connection?.unref();
  }

  /** Closes all connections; their requests fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const open = [...this.#connections, ...this.#sections];
    await Promise.all(open.map((connection) => connection?.close()));
  }

  /** @returns Why no connection can be made now. */
  #whyAway({ line, key }: Request<unknown>): ConnectionError | undefined {
    const leftMs = Math.ceil(this.#retryAtMs - performance.now());
    const isDue = !this.#isClosed && this.#probe === undefined && leftMs <= 0;
    if (isDue && !this.#isToBeAsked) return undefined;
    const [command = ""] = line.split(" ", 1);
    const reason = this.#isClosed
      ? "the client was closed"
      : this.#probe !== undefined
      ? "the server is down; another request tries whether it answers"
      : `the server is down; next attempt in ${Math.max(1, leftMs)} ms`;
    return new ConnectionError({ server: this.name, command, key }, reason);
  }

  /** Whether the server was silent, and may be tried again. */
  get #isToBeAsked(): boolean {
    return this.#wasSilent && this.#failures > 0 && this.#probe === undefined && !this.#isClosed &&
      performance.now() >= this.#retryAtMs && this.#freeTurn >= 0;
  }

  /** A turn without a connection; -1: there is none. */
  get #freeTurn(): number {
    return this.#connections.findIndex((each) => each === undefined || each.isEnded);
  }

  /**
   * Tries whether a server answers that was silent, if it is time. Resolves when that is known, or after the first
   * pause: nobody waits longer.
   */
  async askAside(): Promise<void> {
    if (!this.#isToBeAsked) return;
    const connection = this.#probe = this.#connections[this.#freeTurn] = this.#connect();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#link.retryFirstMs);
      connection.send(requests.probe("")).catch(() => {}).finally(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #connect(onEnd?: () => void): Connection {
    const era = this.#era;
    let isServing = false;
    const connection: Connection = new Connection(this.#address, this.#link, {
      serves: () => {
        isServing = true;
        if (connection === this.#probe) this.#probe = undefined;
        if (era !== this.#era || this.#failures === 0) return;
        this.#failures = 0;
        this.#watcher.up(this.name);
      },
      ended: (reason, error) => {
        assert(connection.isEnded, "a connection that tells its end takes no request");
        if (connection === this.#probe) this.#probe = undefined;
        if (reason !== "closed") {
          this.#watcher.lost();
          // One that has served needs no pause; one made before the last failure shares the pause after it.
          if (era === this.#era && !(isServing && reason === "failed")) {
            this.#wasSilent = reason === "timeout";
            this.#failed(error);
          }
        }
        onEnd?.();
      },
    });
    if (this.#isUnref) connection.unref();
    return connection;
  }

  #failed(error: ConnectionError): void {
    this.#era++;
    if (this.#failures === 0) this.#watcher.down(this.name, error);
    const { retryFirstMs, retryMaxMs } = this.#link;
    const pauseMs = Math.min(retryFirstMs * 2 ** this.#failures++, retryMaxMs);
    // Clients that lost the same server must not come back at the same time.
    this.#retryAtMs = performance.now() + pauseMs * (0.5 + Math.random() / 2);
  }
}
