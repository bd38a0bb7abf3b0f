/// <reference lib="deno.worker" />
// One of several threads whose connections lock, write and vanish over the same store. Checks the rules of each step;
// its starter checks those of the whole.
import { assert, assertEquals, assertGreater, assertMatch } from "@std/assert";
import type { ThreadContext } from "../../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import { ConversationPeer } from "../sessions/conversation_side.ts";
import { randomFrom } from "../random.ts";
import { joinThread, type Shared } from "../threads.ts";

export const LOCK_KEYS = 8;
export const LOCKS_MAX = 6;
export const LOCKS_PER_CONNECTION_MAX = 2;

export interface LockOrder extends Shared {
  /** From 1; the thread that started them all is 0. */
  readonly threadIndex: number;
  readonly seed: number;
  readonly rounds: number;
  /** By key: the connection that believes it holds the lock, or 0; and the largest fencing number handed out. */
  readonly holders: SharedArrayBuffer;
  readonly fences: SharedArrayBuffer;
}

/** A lock that was given. */
export interface Grant {
  readonly key: number;
  /** Numbers the requests for the key, in the order in which they were made. */
  readonly ticket: number;
  readonly fence: number;
  readonly waited: boolean;
}

export interface LockReport {
  readonly grants: readonly Grant[];
  readonly error: string | undefined;
}

const CONNECTIONS = 3;
/** The clock goes two hundred times as fast as usual. */
const WAITS_MS = [2000, 60_000, 3_600_000];

self.onmessage = ({ data }: MessageEvent<LockOrder>) => {
  const grants: Grant[] = [];
  let error: string | undefined;
  try {
    new LockThread(data, grants).run(data.rounds);
  } catch (caught) {
    error = String(caught);
  }
  self.postMessage({ grants, error } satisfies LockReport);
  self.close();
};

interface Connection {
  readonly peer: ConversationPeer;
  /** By key, the value it must keep while this connection holds the lock. */
  readonly held: Map<number, string>;
  /** The key it waits for. */
  waiting: { key: number; ticket: number } | undefined;
}

class LockThread {
  readonly #thread: ThreadContext;
  readonly #protocols: ThreadProtocols;
  readonly #threadIndex: number;
  readonly #random: () => number;
  readonly #holders: Int32Array;
  readonly #fences: Float64Array;
  readonly #grants: Grant[];
  readonly #connections: Connection[];
  #writes = 0;

  constructor(order: LockOrder, grants: Grant[]) {
    this.#thread = joinThread(order, order.threadIndex);
    this.#protocols = new ThreadProtocols(this.#thread);
    this.#threadIndex = order.threadIndex;
    this.#random = randomFrom(order.seed);
    this.#holders = new Int32Array(order.holders);
    this.#fences = new Float64Array(order.fences);
    this.#grants = grants;
    this.#connections = Array.from({ length: CONNECTIONS }, () => this.#connect());
  }

  run(rounds: number): void {
    for (let round = 0; round < rounds; round++) {
      this.#resume();
      const index = this.#below(CONNECTIONS);
      const connection = this.#connections[index]!;
      if (this.#random() < 0.02) {
        this.#disconnect(connection);
        this.#connections[index] = this.#connect();
      } else if (connection.waiting === undefined) this.#act(connection);
    }
    for (const connection of this.#connections) this.#disconnect(connection);
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  #connect(): Connection {
    const peer = new ConversationPeer(this.#protocols, () => {}, this.#threadIndex);
    return { peer, held: new Map(), waiting: undefined };
  }

  #act(connection: Connection): void {
    const key = this.#below(LOCK_KEYS);
    const choice = this.#random();
    if (choice < 0.35) this.#lock(connection, key);
    else if (choice < 0.65) this.#write(connection, key);
    else if (choice < 0.7) this.#delete(connection, key);
    else if (choice < 0.9) this.#unlock(connection);
    else if (choice < 0.93) {
      for (const held of connection.held.keys()) this.#giveUp(connection, held);
      assertEquals(connection.peer.ask("unlock_all\r\n"), "OK\r\n");
    } else this.#look(connection);
  }

  /** The number that counts those who ask, the lock, and the value under it come in one step. */
  #lock(connection: Connection, key: number): void {
    const wait = this.#random() < 0.5 ? "" : ` ${WAITS_MS[this.#below(WAITS_MS.length)]}`;
    const request = `incr ticket${key} 1\r\nlock key${key}${wait} fence\r\nget key${key}\r\n`;
    const reply = connection.peer.ask(request);
    const [, number, rest] = /^(\d+)\r\n([^]*)$/.exec(reply) ?? [];
    const ticket = Number(number);
    if (rest !== "") return this.#locked(connection, key, ticket, rest!, false);
    assert(wait !== "" && !connection.held.has(key), "only who asks for it waits, not for itself");
    connection.waiting = { key, ticket };
  }

  #locked(
    connection: Connection,
    key: number,
    ticket: number,
    reply: string,
    waited: boolean,
  ): void {
    const [, digits, value] = /^OK (\d+)\r\nVALUE \w+ 0 \d+\r\n(.*)\r\nEND\r\n$/.exec(reply) ?? [];
    if (digits === undefined) {
      assertMatch(reply, /^(LOCKED|NOT_FOUND|SERVER_ERROR too many locks)\r\n/);
      assert(!connection.held.has(key), "who holds a lock gets it again");
      if (reply.startsWith("NOT_FOUND")) connection.peer.ask(`add key${key} 0 0 1\r\n0\r\n`);
      return;
    }
    const fence = Number(digits);
    if (connection.held.has(key)) {
      assertEquals(fence, this.#fences[key], "the same lock has the same fencing number");
      return;
    }
    const { owner } = connection.peer;
    const other = Atomics.compareExchange(this.#holders, key, 0, owner);
    assertEquals(other, 0, `nobody else holds key${key}, which ${owner} was given`);
    assertGreater(fence, this.#fences[key]!, "fencing numbers grow");
    this.#fences[key] = fence;
    connection.held.set(key, value!);
    assert(connection.held.size <= LOCKS_PER_CONNECTION_MAX, "the limit of a connection holds");
    const locks = this.#holders.filter((holder) => holder !== 0).length;
    assert(locks <= LOCKS_MAX, "the limit in all holds");
    this.#grants.push({ key, ticket, fence, waited });
  }

  #write(connection: Connection, key: number): void {
    const { held, peer } = connection;
    const value = `${peer.owner}-${this.#writes++}`;
    const reply = peer.ask(`set key${key} 0 0 ${value.length}\r\n${value}\r\n`);
    if (!held.has(key)) return assertMatch(reply, /^(STORED|LOCKED)\r\n$/);
    assertEquals(reply, "STORED\r\n", "a holder writes");
    held.set(key, value);
  }

  /** The lock ends with the item, and its waiters are answered. */
  #delete(connection: Connection, key: number): void {
    const { held, peer } = connection;
    if (!held.has(key)) {
      assertMatch(peer.ask(`delete key${key}\r\n`), /^(DELETED|LOCKED|NOT_FOUND)\r\n$/);
      return;
    }
    this.#giveUp(connection, key);
    assertEquals(peer.ask(`delete key${key}\r\n`), "DELETED\r\n");
  }

  #unlock(connection: Connection): void {
    const [key] = connection.held.keys();
    if (key === undefined) return;
    this.#giveUp(connection, key);
    assertEquals(connection.peer.ask(`unlock key${key}\r\n`), "OK\r\n", "a holder unlocks");
  }

  /** Asserts that a locked value is as its holder left it. */
  #look({ held, peer }: Connection): void {
    for (const [key, value] of held) {
      const expected = `VALUE key${key} 0 ${value.length}\r\n${value}\r\nEND\r\n`;
      assertEquals(peer.ask(`get key${key}\r\n`), expected, "nobody else's write passes");
    }
  }

  /** Before the server hears of it: from then on another may hold it. */
  #giveUp(connection: Connection, key: number): void {
    // A waiter gets no reply meanwhile.
    if (connection.waiting === undefined) this.#look(connection);
    connection.held.delete(key);
    const was = Atomics.exchange(this.#holders, key, 0);
    assertEquals(was, connection.peer.owner, "a lock is its holder's to the end");
  }

  #disconnect(connection: Connection): void {
    for (const key of connection.held.keys()) this.#giveUp(connection, key);
    connection.peer.disconnect();
  }

  /** Tells those whose waiting is over, as a transport does when it is woken. */
  #resume(): void {
    this.#thread.takeReady(this.#threadIndex, (owner) => {
      const connection = this.#connections.find(({ peer }) => peer.owner === owner);
      const waiting = connection?.waiting;
      assert(connection !== undefined && waiting !== undefined, "only who waits is woken");
      connection.waiting = undefined;
      const reply = connection.peer.resume();
      this.#locked(connection, waiting.key, waiting.ticket, reply, true);
    });
  }
}
