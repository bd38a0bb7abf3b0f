import { assert } from "../../store/base/assert.ts";
import { reasonOf } from "../process/reason.ts";
import type { Address, DialOptions } from "./dial.ts";
import { Peer } from "./peer.ts";

/** An idle connection that is older is not used again: the server may be about to close it. */
const IDLE_MS_MAX = 1000;

/** There is no connection to the server: nothing was sent. */
export class UnsentError extends Error {
  override readonly name = "UnsentError";
}

interface Idle {
  readonly peer: Peer;
  readonly sinceMs: number;
}

/**
 * Connections to one server. Each carries one request at a time, so that none waits behind the reply of another, and
 * a request that is given up takes no other with it.
 */
export class PeerPool {
  readonly #address: Address;
  readonly #options: DialOptions;
  readonly #idle: Idle[] = [];
  #isClosed = false;

  constructor(address: Address, options: DialOptions) {
    this.#address = address;
    this.#options = options;
  }

  /**
   * Sends a request over a connection of its own, and reads its reply.
   *
   * @param use Uses the connection. It is kept for other requests if `use` returns, with no byte left.
   * @throws UnsentError; what `use` throws.
   */
  async with<Reply>(use: (peer: Peer) => Promise<Reply>): Promise<Reply> {
    const peer = await this.#connection();
    const isShared = this.#idle.some((each) => each.peer === peer);
    assert(!isShared, "a connection has one request at a time");
    let isWhole = false;
    try {
      const reply = await use(peer);
      // Bytes behind the reply would be taken for the next one.
      isWhole = peer.isRead;
      return reply;
    } finally {
      if (isWhole && !this.#isClosed) this.#idle.push({ peer, sinceMs: performance.now() });
      else peer.close();
    }
  }

  /** Closes idle connections; the others are closed after their requests. */
  close(): void {
    this.#isClosed = true;
    for (const { peer } of this.#idle) peer.close();
  }

  async #connection(): Promise<Peer> {
    for (let idle; (idle = this.#idle.pop()) !== undefined;) {
      if (performance.now() - idle.sinceMs < IDLE_MS_MAX) return idle.peer;
      idle.peer.close();
    }
    try {
      return await Peer.connect(this.#address, this.#options);
    } catch (error) {
      throw new UnsentError(reasonOf(error), { cause: error });
    }
  }
}
