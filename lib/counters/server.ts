import { CounterConversation, CounterService } from "./conversation.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../net/accept_failures.ts";
import { openSocket } from "../net/portable/bind.ts";
import {
  isConnectionError,
  pause,
  peerName,
  prepareTcp,
  resourceShortage,
} from "../net/portable/sockets.ts";
import {
  connectionStalled,
  DRAIN_GRACE_MS,
  DRAIN_MS_MAX,
  type TcpListen,
  type TransportEvent,
  type TransportOptions,
} from "../net/transport.ts";
import { FairScheduler } from "../net/fair_scheduler.ts";

const SWEEP_MS = 1000;
/** Counters that are dropped at a time. */
const DROPS_MAX = 1000;
/** The pause before the next ones. */
const DROP_PAUSE_MS = 5;

/** Options of the counter server. */
export interface CounterServerOptions {
  readonly listens: readonly TcpListen[];
  readonly connectionsMax: number;
  /** The memory limit of all counters. */
  readonly bytesMax: number;
  /** How often idle counters are dropped and the highest consumptions reset. */
  readonly intervalSec: number;
}

/**
 * Serves yrmcds's counter protocol on ports of its own. All of it runs on the thread that opens it,
 * over the runtime's sockets: there is one set of counters, whatever transport serves the cache.
 */
export class CounterServer {
  /** The addresses it listens on, with the ports that were bound. */
  readonly listens: TcpListen[] = [];
  readonly #options: CounterServerOptions;
  readonly #transport: TransportOptions;
  readonly #report: (event: TransportEvent) => void;
  readonly #service: CounterService;
  readonly #listeners: Deno.TcpListener[] = [];
  readonly #connections = new Set<CounterConnection>();
  readonly #scheduler = new FairScheduler();
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #stopping = false;
  readonly #acceptFailures: AcceptFailures;

  /**
   * Takes the addresses.
   *
   * @param report Logs an event.
   * @throws ListenError when one cannot be had.
   */
  constructor(
    options: CounterServerOptions,
    transport: TransportOptions,
    report: (event: TransportEvent) => void,
  ) {
    this.#options = options;
    this.#transport = transport;
    this.#report = report;
    this.#acceptFailures = new AcceptFailures(report, "--counter-conn-limit");
    this.#service = new CounterService(options.bytesMax);
    try {
      for (const listen of options.listens) {
        const listener = openSocket(listen, transport.backlog, false) as Deno.TcpListener;
        this.#listeners.push(listener);
        this.listens.push({ ...listen, port: listener.addr.port });
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Accepts and serves connections from here on. */
  start(): void {
    for (const listener of this.#listeners) this.#accept(listener);
    this.#timers.push(
      setInterval(() => this.#sweep(), SWEEP_MS),
      setInterval(() => this.#beginInterval(), this.#options.intervalSec * 1000),
    );
  }

  /** Finishes requests in progress, then closes everything. */
  async stop(): Promise<void> {
    this.#stopListening();
    await this.#waitUntilClosed(DRAIN_GRACE_MS);
    for (const connection of this.#connections) connection.finish();
    await this.#waitUntilClosed(DRAIN_MS_MAX);
    this.close();
  }

  /** Closes everything now. Idempotent. */
  close(): void {
    this.#stopListening();
    for (const connection of this.#connections) connection.close();
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  #stopListening(): void {
    this.#stopping = true;
    for (const listener of this.#listeners.splice(0)) listener.close();
  }

  /** Resolves when no connection is left, or after `ms`. */
  async #waitUntilClosed(ms: number): Promise<void> {
    const stepMs = 10;
    for (let passed = 0; passed < ms && this.#connections.size > 0; passed += stepMs) {
      await pause(stepMs);
    }
  }

  async #accept(listener: Deno.TcpListener): Promise<void> {
    while (!this.#stopping) {
      let socket: Deno.TcpConn;
      try {
        socket = await listener.accept();
      } catch (error) {
        if (this.#stopping) return;
        const code = resourceShortage(error);
        if (code !== "") this.#acceptFailures.add(code, performance.now());
        await pause(code === "" ? 1 : ACCEPT_PAUSE_MS);
        continue;
      }
      if (this.#connections.size >= this.#options.connectionsMax) {
        const peer = peerName(socket.remoteAddr);
        const reason =
          `${this.#options.connectionsMax} connections are open (--counter-conn-limit)`;
        socket.close();
        this.#report({
          level: "info",
          event: "connection_refused",
          message: `connection refused: ${peer}: ${reason}`,
          fields: { peer, reason },
        });
        continue;
      }
      prepareTcp(socket);
      const connection = new CounterConnection(socket, this.#service, this.#scheduler);
      this.#connections.add(connection);
      // A connection that fails for another reason than its peer rejects, which ends the process.
      connection.serve().then(() => this.#connections.delete(connection));
    }
  }

  /** Closes connections whose peer does not read. */
  #sweep(): void {
    const { sendTimeoutSec } = this.#transport;
    const instantMs = performance.now() - sendTimeoutSec * 1000;
    for (const connection of this.#connections) {
      if (!connection.stalledSince(instantMs)) continue;
      connection.close();
      this.#report(connectionStalled(sendTimeoutSec, { peer: connection.peer }));
    }
  }

  #beginInterval(): void {
    this.#service.gcCount++;
    this.#service.gcMicroseconds = 0;
    this.#service.counters.beginInterval();
    this.#dropIdle();
  }

  #dropIdle(): void {
    const startMs = performance.now();
    const more = this.#service.counters.dropIdle(DROPS_MAX);
    const microseconds = Math.round((performance.now() - startMs) * 1000);
    this.#service.gcMicroseconds += microseconds;
    this.#service.gcMicrosecondsEver += microseconds;
    if (more && !this.#stopping) setTimeout(() => this.#dropIdle(), DROP_PAUSE_MS);
  }
}

/** One connection: reads, executes the requests, and sends the replies before it reads again. */
class CounterConnection {
  readonly peer: string;
  readonly #socket: Deno.TcpConn;
  readonly #conversation: CounterConversation;
  readonly #scheduler: FairScheduler;
  /** When the peer last took bytes, on the process's clock; 0: nothing is being sent. */
  #sendingSinceMs = 0;
  #closing = false;
  #closed = false;

  constructor(socket: Deno.TcpConn, service: CounterService, scheduler: FairScheduler) {
    this.peer = peerName(socket.remoteAddr);
    this.#socket = socket;
    this.#conversation = new CounterConversation(service);
    this.#scheduler = scheduler;
  }

  /** Whether the peer has taken nothing of its replies since before `instantMs`. */
  stalledSince(instantMs: number): boolean {
    return this.#sendingSinceMs !== 0 && this.#sendingSinceMs < instantMs;
  }

  /** Closes now. A read or write in progress fails. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.#socket.close();
    } catch {
      // It was closed by its peer.
    }
  }

  /** Closes when the replies in progress have been sent, or now if there are none. */
  finish(): void {
    this.#closing = true;
    if (this.#sendingSinceMs === 0) this.close();
  }

  /** Serves the connection until it closes. Never rejects for what the peer does. */
  async serve(): Promise<void> {
    const conversation = this.#conversation;
    try {
      while (!this.#closing && !conversation.closing) {
        const received = await this.#socket.read(conversation.readBuffer());
        if (received === null) break;
        conversation.received(received);
        for (let more = true; more;) {
          const startMs = performance.now();
          const replies = conversation.replies();
          const pause = this.#scheduler.charge(performance.now() - startMs);
          more = replies !== null;
          if (replies !== null) await this.#send(replies);
          if (pause !== null) await pause;
        }
      }
    } catch (error) {
      // Anything else is a broken invariant.
      if (!isConnectionError(error)) throw error;
    } finally {
      conversation.end();
    }
    this.close();
  }

  async #send(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    for (let sent = 0; sent < bytes.length;) {
      this.#sendingSinceMs = performance.now();
      sent += await this.#socket.write(bytes.subarray(sent));
    }
    this.#sendingSinceMs = 0;
  }
}
