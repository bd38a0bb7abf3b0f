import { clockSec } from "../../../../store/clock.ts";
import { STAT } from "../../../../store/stats.ts";
import type { CloseReason } from "../../../../store/cache.ts";
import { VERBOSITY_DROPPED } from "../../cache_service.ts";
import { handshakeFailed, type TlsMode } from "../../transport.ts";
import type { TransportContext } from "../../worker_transport.ts";
import type { NativeConnection } from "../connection.ts";
import { type Epoll, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP } from "../epoll.ts";
import type { Libc } from "../libc.ts";
import { TlsContexts } from "./contexts.ts";
import {
  OpenSsl,
  SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
  SSL_VERIFY_NONE,
  SSL_VERIFY_PEER,
  TLS1_3_VERSION,
} from "./openssl.ts";
import { HandshakeStep, TlsStream } from "./stream.ts";

/**
 * Handshakes that one thread has begun and not ended. Each takes some 50 KiB of OpenSSL's memory; a connection that has
 * sent nothing yet takes none.
 */
const STARTED_MAX = 512;
/** At STARTED_MAX, a handshake whose client has been silent for longer than this makes room for a new one. */
const CROWDED_MS = 1000;
/** Late connections that one round of the event loop closes: some 25 µs each. */
const CLOSED_IN_ROUND = 4;
/** TLS 1.3 sends this many session tickets after a full handshake, and one after a resumed one. */
const TICKETS = 2;

/** OpenSSL's bits for a listener's mode; undefined: those of `--ssl-verify-mode`. */
const VERIFY_MODES: Readonly<Record<TlsMode, number | undefined>> = {
  tls: undefined,
  btls: SSL_VERIFY_NONE,
  mtls: SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
};

/** The TLS handshakes of one thread. */
export class TlsHandshakes {
  readonly contexts: TlsContexts;
  /** Whether the next round has connections to close whose handshake takes too long. */
  isClosingLate = false;
  readonly #context: TransportContext;
  readonly #libc: Libc;
  readonly #epoll: Epoll;
  readonly #openssl = new OpenSsl();
  readonly #timeoutSec: number;
  readonly #close: (connection: NativeConnection, reason: CloseReason) => void;
  /** Every connection whose handshake has not ended, the oldest first, with the mode of its listener. */
  readonly #open = new Map<NativeConnection, TlsMode>();
  /** Connections that may have an SSL, with the time of their last step, the oldest step first. */
  readonly #steppedAtMs = new Map<NativeConnection, number>();
  /** Connections that can take a step, in the order of epoll's reports. */
  readonly #ready = new Set<NativeConnection>();
  /** Connections deferred until there are fewer handshakes, the oldest first. */
  readonly #deferred = new Set<NativeConnection>();

  constructor(
    context: TransportContext,
    libc: Libc,
    epoll: Epoll,
    shared: SharedArrayBuffer,
    close: (connection: NativeConnection, reason: CloseReason) => void,
  ) {
    const settings = context.options.tls!;
    this.#context = context;
    this.#libc = libc;
    this.#epoll = epoll;
    this.#timeoutSec = settings.handshakeTimeoutSec;
    this.#close = close;
    this.contexts = new TlsContexts(this.#openssl, settings, shared);
  }

  /** Whether a handshake may be given up for its time. */
  get areTimed(): boolean {
    return this.#open.size > 0;
  }

  /** Puts the TLS layer between socket and conversation of a new connection. */
  begin(connection: NativeConnection, mode: TlsMode): void {
    const nowSec = clockSec(this.#context.thread.memory);
    connection.tls = new TlsStream(this.#openssl, this.#libc, nowSec);
    connection.handshaking = true;
    this.#open.set(connection, mode);
  }

  /** Queues a connection that epoll has reported for its next step. Defers it if there are too many handshakes. */
  enqueue(connection: NativeConnection, events: number): void {
    // A client that half-closed before our first reply cannot complete the handshake.
    if (!connection.tls!.started && events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
      return this.#close(connection, "error");
    }
    if (this.#deferred.has(connection)) return;
    if (!this.#steppedAtMs.has(connection)) {
      if (this.#steppedAtMs.size >= STARTED_MAX && !this.#dropSlowest()) {
        this.#epoll.watch(connection, EPOLLRDHUP);
        this.#deferred.add(connection);
        return;
      }
      this.#steppedAtMs.set(connection, performance.now());
    }
    this.#ready.add(connection);
  }

  /**
   * Takes one step of the first queued handshake. To be called once in each round of the event loop, because a step can
   * take milliseconds.
   *
   * @returns The connection, if its handshake is done: it may have sent requests.
   */
  step(): NativeConnection | null {
    if (this.isClosingLate) this.#closeSomeLate();
    for (const connection of this.#ready) {
      this.#ready.delete(connection);
      this.#steppedAtMs.delete(connection);
      const isDone = this.#step(connection);
      if (this.#open.has(connection)) this.#steppedAtMs.set(connection, performance.now());
      return isDone ? connection : null;
    }
    return null;
  }

  #step(connection: NativeConnection): boolean {
    const tls = connection.tls!;
    if (!tls.started) {
      this.#epoll.watch(connection, EPOLLIN);
      tls.start(this.contexts.current(), connection.fd, VERIFY_MODES[this.#open.get(connection)!]);
    }
    const wantedWrite = tls.wantsWrite;
    switch (tls.handshake()) {
      case HandshakeStep.DONE:
        this.#succeeded(connection, wantedWrite);
        return true;
      case HandshakeStep.WAITS:
        if (tls.wantsWrite !== wantedWrite) {
          const wanted = tls.wantsWrite ? EPOLLOUT : EPOLLIN;
          this.#epoll.watch(connection, wanted);
        }
        return false;
      default:
        this.#fail(connection, tls.failure);
        return false;
    }
  }

  /** Makes the next rounds close connections whose handshake takes too long. To be called about once a second. */
  closeLate(): void {
    this.isClosingLate = this.#open.size > 0;
  }

  /** Closes some of the connections whose handshake takes too long. */
  #closeSomeLate(): void {
    for (let count = 0; count < CLOSED_IN_ROUND; count++) {
      if (this.#closeOldest() || (this.#deferred.size > 0 && this.#dropSlowest())) continue;
      this.isClosingLate = false;
      return;
    }
  }

  /** Closes the oldest connection, if its time is over. @returns Whether it was. */
  #closeOldest(): boolean {
    const nowSec = clockSec(this.#context.thread.memory);
    for (const connection of this.#open.keys()) {
      const isLate = nowSec - connection.tls!.sinceSec > this.#timeoutSec;
      if (isLate) {
        this.#fail(connection, `not done after ${this.#timeoutSec} s (--ssl-handshake-timeout)`);
      }
      return isLate;
    }
    return false;
  }

  /** Removes a connection that is closed or has finished its handshake. Lets a deferred one begin. */
  forget(connection: NativeConnection): void {
    if (!this.#open.delete(connection)) return;
    connection.handshaking = false;
    this.#steppedAtMs.delete(connection);
    this.#ready.delete(connection);
    if (this.#deferred.delete(connection)) return;
    for (const next of this.#deferred) {
      this.#deferred.delete(next);
      this.#epoll.watch(next, EPOLLIN | EPOLLRDHUP);
      break;
    }
  }

  /** Drops the handshake whose client has not answered for the longest time. @returns Whether one was that slow. */
  #dropSlowest(): boolean {
    for (const [connection, steppedAtMs] of this.#steppedAtMs) {
      // A queued handshake waits for this thread, not for its client.
      const isSlow = !this.#ready.has(connection) && performance.now() - steppedAtMs >= CROWDED_MS;
      if (isSlow) this.#fail(connection, `slow, and ${STARTED_MAX} handshakes are under way`);
      return isSlow;
    }
    return false;
  }

  #succeeded(connection: NativeConnection, wantedWrite: boolean): void {
    this.forget(connection);
    if (wantedWrite) this.#epoll.watch(connection, EPOLLIN);
    if (!this.#context.options.tls!.sessionCache) return;
    const { version, isResumed } = connection.tls!;
    const tickets = version >= TLS1_3_VERSION ? TICKETS : 1;
    this.#count(STAT.ssl_new_sessions, isResumed ? tickets - 1 : tickets);
  }

  #fail(connection: NativeConnection, reason: string): void {
    const { thread, report } = this.#context;
    this.#count(STAT.ssl_handshake_errors, 1);
    if (thread.tunables.get("verbosity") >= VERBOSITY_DROPPED) {
      report(handshakeFailed(reason, connection.service.sourceOf(connection.id)));
    }
    this.#close(connection, "error");
  }

  #count(stat: number, by: number): void {
    this.#context.thread.memory.stats[stat]! += by;
  }
}
