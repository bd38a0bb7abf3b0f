import { clockSec } from "../../../../store/clock.ts";
import { STAT } from "../../../../store/stats.ts";
import type { CloseReason } from "../../../../store/cache.ts";
import { eventSource, VERBOSITY_DROPPED } from "../../connection_lifecycle.ts";
import { handshakeFailed, type TlsMode, type TransportContext } from "../../transport.ts";
import type { NativeConnection } from "../connection.ts";
import { type Epoll, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT } from "../epoll.ts";
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
/** When there are that many, older ones than this are dropped for new ones. */
const CROWDED_MS = 1000;
/** Steps of handshakes in one round of the event loop: each takes up to milliseconds, and other clients wait. */
const STEPS_IN_ROUND = 1;
/** TLS 1.3 sends this many session tickets after a full handshake, and one after a resumed one. */
const TICKETS = 2;

/** OpenSSL's bits for a listener's mode; undefined: those of `-o ssl_verify_mode`. */
const VERIFY_MODES: Readonly<Record<TlsMode, number | undefined>> = {
  tls: undefined,
  btls: SSL_VERIFY_NONE,
  mtls: SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
};

/** A thread's TLS: its connections up to the end of their handshakes. */
export class TlsHandshakes {
  readonly contexts: TlsContexts;
  readonly #context: TransportContext;
  readonly #libc: Libc;
  readonly #epoll: Epoll;
  readonly #openssl = new OpenSsl();
  readonly #timeoutSec: number;
  readonly #close: (connection: NativeConnection, reason: CloseReason) => void;
  /** Every connection whose handshake has not ended, the oldest first. */
  readonly #open = new Set<NativeConnection>();
  /** Those that have an SSL, the oldest first, with the time at which they got it. */
  readonly #startedAtMs = new Map<NativeConnection, number>();
  /** Those that wait until there are fewer handshakes, the oldest first. */
  readonly #deferred = new Set<NativeConnection>();
  #stepsLeft = STEPS_IN_ROUND;

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

  /** A new connection of a listener with TLS: puts the layer between its socket and its conversation. */
  begin(connection: NativeConnection): void {
    const nowSec = clockSec(this.#context.thread.memory);
    connection.tls = new TlsStream(this.#openssl, this.#libc, nowSec);
    connection.handshaking = true;
    this.#open.add(connection);
  }

  beginRound(): void {
    this.#stepsLeft = STEPS_IN_ROUND;
  }

  /**
   * Goes on with a handshake, when epoll reports its connection. Not more than a few in a round: epoll reports the
   * others again.
   *
   * @returns Whether the handshake is done: the connection may have sent requests.
   */
  step(connection: NativeConnection, events: number, mode: TlsMode): boolean {
    if (this.#deferred.has(connection)) {
      if (events & (EPOLLERR | EPOLLHUP)) this.#close(connection, "error");
      return false;
    }
    if (this.#stepsLeft === 0) return false;
    const tls = connection.tls!;
    if (!tls.started) {
      if (this.#startedAtMs.size >= STARTED_MAX && !this.#dropOldest()) {
        this.#epoll.watch(connection, 0);
        this.#deferred.add(connection);
        return false;
      }
      this.#startedAtMs.set(connection, performance.now());
      tls.start(this.contexts.current(), connection.fd, VERIFY_MODES[mode]);
    }
    this.#stepsLeft--;
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

  /** Closes connections whose handshake takes too long. To be called about once a second. */
  closeLate(): void {
    const nowSec = clockSec(this.#context.thread.memory);
    for (const connection of this.#open) {
      if (nowSec - connection.tls!.sinceSec <= this.#timeoutSec) break;
      this.#fail(connection, `not done after ${this.#timeoutSec} s (-o ssl_handshake_timeout)`);
    }
    while (this.#deferred.size > 0 && this.#dropOldest());
  }

  /** The connection is closed, or its handshake done. Lets the next one begin. */
  forget(connection: NativeConnection): void {
    if (!this.#open.delete(connection)) return;
    connection.handshaking = false;
    this.#startedAtMs.delete(connection);
    if (this.#deferred.delete(connection)) return;
    for (const next of this.#deferred) {
      this.#deferred.delete(next);
      this.#epoll.watch(next, EPOLLIN);
      break;
    }
  }

  /** Drops the oldest handshake that has begun, if it is slow. @returns Whether it did: there is room for another. */
  #dropOldest(): boolean {
    for (const [connection, startedAtMs] of this.#startedAtMs) {
      if (performance.now() - startedAtMs < CROWDED_MS) return false;
      this.#fail(connection, `slow, and ${STARTED_MAX} handshakes are under way`);
      return true;
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
      report(handshakeFailed(reason, eventSource(thread, connection.id)));
    }
    this.#close(connection, "error");
  }

  #count(stat: number, by: number): void {
    const { cache, memory } = this.#context.thread;
    cache.enter();
    memory.stats[stat]! += by;
    cache.leave();
  }
}
