import { REFUSAL } from "../../../protocol/replies.ts";
import { ConnectionKind, NO_OWNER } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../accept_failures.ts";
import { ConnectionLifecycle } from "../connection_lifecycle.ts";
import { type Epoll, EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT } from "./epoll.ts";
import {
  EAGAIN,
  EMFILE,
  ENFILE,
  ENOBUFS,
  ENOMEM,
  errnoName,
  type Libc,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  SHUT_WR,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
} from "./libc.ts";
import type { NativeWorkerData } from "./bind.ts";
import { NativeConnection } from "./connection.ts";
import { ADDRESS_BYTES_MAX, readAddress } from "./socket_address.ts";
import {
  type Listen,
  listenerName,
  statsAddressText,
  type TlsMode,
  tlsOf,
  type TransportContext,
} from "../transport.ts";

/** Connections accepted in one slice; then open connections are served. */
const ACCEPTS_MAX = 32;
/**
 * Bit of a descriptor's tag, beside the number of its listener: no worker has adopted the descriptor yet. An event
 * without this bit, for a descriptor that the worker does not know, belongs to a connection that was closed after the
 * wait; another worker's new connection may have the same number.
 */
const HANDED_OVER = 1 << 16;

/**
 * The opening and closing of one worker's connections. Every worker accepts from the same listeners, and gives each new
 * connection to the worker that has the fewest: it adds the descriptor to that worker's epoll instance, armed for
 * writing, so that the other one meets it at once and adopts it.
 */
export class NativeAcceptor {
  readonly #context: TransportContext;
  readonly #workerData: NativeWorkerData;
  readonly #libc: Libc;
  readonly #epoll: Epoll;
  /** Open connections of each worker, then of all workers. */
  readonly #loads: Int32Array;
  readonly #address = new Uint8Array(ADDRESS_BYTES_MAX);
  readonly #addressLength = new Int32Array(1);
  readonly #connectionLifecycle: ConnectionLifecycle;
  #listening = false;
  /** Time at which accepting stopped, on the process's clock; 0 while it accepts. */
  #pausedAtMs = 0;
  readonly #acceptFailures: AcceptFailures;

  constructor(context: TransportContext, libc: Libc, epoll: Epoll) {
    this.#context = context;
    this.#workerData = context.workerData as NativeWorkerData;
    this.#libc = libc;
    this.#epoll = epoll;
    this.#connectionLifecycle = new ConnectionLifecycle(context);
    this.#acceptFailures = new AcceptFailures((event) => context.report(event));
    this.#loads = new Int32Array(this.#workerData.loads);
  }

  /** Length of the present pause in accepting; 0: no pause. */
  get pauseMs(): number {
    return this.#pausedAtMs === 0 ? 0 : ACCEPT_PAUSE_MS;
  }

  open(): void {
    this.#listening = true;
    this.#workerData.listenFds.forEach((fd, index) => {
      this.#epoll.add(fd, EPOLLIN | EPOLLEXCLUSIVE, index);
    });
  }

  close(): void {
    if (!this.#listening) return;
    this.#listening = false;
    for (const fd of this.#workerData.listenFds) this.#epoll.remove(fd);
  }

  isListener(fd: number): boolean {
    return this.#workerData.listenFds.includes(fd);
  }

  /** Returns the TLS of the listener that accepted a connection; undefined: plain. */
  tlsOf(connection: NativeConnection): TlsMode | undefined {
    return tlsOf(this.#workerData.listens[connection.tag]!);
  }

  /** Whether a descriptor with this tag waits to be adopted. */
  isHandedOver(tag: number): boolean {
    return (tag & HANDED_OVER) !== 0;
  }

  /** Accepts every connection in the backlog. */
  acceptAll(): void {
    const rounds = Math.ceil(this.#context.options.backlog / ACCEPTS_MAX);
    for (const fd of this.#workerData.listenFds) {
      for (let round = 0; round < rounds && this.#listening; round++) this.accept(fd);
    }
  }

  /** Accepts the waiting connections of a listener, and gives each to a worker. */
  accept(listenFd: number): void {
    const tag = this.#workerData.listenFds.indexOf(listenFd);
    for (let accepts = 0; accepts < ACCEPTS_MAX; accepts++) {
      if (!this.#reserve()) return;
      const flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
      const fd = this.#libc.calls.accept4(listenFd, null, null, flags);
      if (fd < 0) {
        const { errno } = this.#libc;
        this.#unreserve();
        if (errno !== EAGAIN) this.#acceptFailed(errno);
        return;
      }
      this.#handOver(fd, tag);
    }
  }

  /**
   * Adopts a descriptor that any worker has accepted for this one.
   *
   * @param eventTag The tag of its event.
   * @returns Undefined when there are too many connections: the peer was refused and the descriptor closed.
   */
  adopt(fd: number, eventTag: number): NativeConnection | undefined {
    const tag = eventTag & ~HANDED_OVER;
    const listen = this.#workerData.listens[tag]!;
    const kind = listen.kind === "unix" ? ConnectionKind.UNIX : ConnectionKind.TCP;
    const owner = this.#connectionLifecycle.open(
      kind,
      this.#peerText(fd, listen),
      listenerName(listen),
    );
    if (owner === NO_OWNER) {
      this.#refuse(fd, listen);
      return undefined;
    }
    this.#epoll.modify(fd, EPOLLIN, tag);
    const conversation = this.#context.protocols.open(owner, { protocol: listen.protocol });
    return new NativeConnection(fd, tag, kind, owner, conversation);
  }

  /** Releases the resources of a connection. Its conversation must have ended. */
  release(connection: NativeConnection): void {
    this.#connectionLifecycle.close(connection.id, connection.closeReason);
    this.#closeFd(connection.fd);
  }

  /** Accepts again when the pause is over. */
  resume(): void {
    const pausedMs = performance.now() - this.#pausedAtMs;
    if (pausedMs < ACCEPT_PAUSE_MS) return;
    this.#pausedAtMs = 0;
    this.#context.lifecycle.resumeAccepting();
    this.#count(STAT.time_in_listen_disabled_us, Math.round(pausedMs * 1000));
    this.open();
  }

  #handOver(fd: number, tag: number): void {
    const loads = this.#loads;
    let target = this.#context.threadIndex;
    let least = Atomics.load(loads, target);
    for (let index = 0; index < this.#context.options.threads; index++) {
      const load = Atomics.load(loads, index);
      if (load < least) [target, least] = [index, load];
    }
    Atomics.add(loads, target, 1);
    const events = EPOLLIN | EPOLLOUT;
    if (this.#epoll.addTo(this.#workerData.epollFds[target]!, fd, events, tag | HANDED_OVER)) {
      return;
    }
    Atomics.sub(loads, target, 1);
    this.#unreserve();
    this.#libc.calls.close(fd);
  }

  /** Counts a connection. Under `no_maxconns_fast` returns false, and pauses, if there is no room for it. */
  #reserve(): boolean {
    const total = this.#context.options.threads;
    const open = Atomics.add(this.#loads, total, 1);
    if (this.#context.options.maxconnsFast || open < this.#context.thread.connections.rows) {
      return true;
    }
    this.#unreserve();
    this.#pause();
    return false;
  }

  #unreserve(): void {
    Atomics.sub(this.#loads, this.#context.options.threads, 1);
  }

  #acceptFailed(errno: number): void {
    if (errno !== EMFILE && errno !== ENFILE && errno !== ENOBUFS && errno !== ENOMEM) return;
    this.#pause();
    this.#acceptFailures.add(errnoName(errno), performance.now());
  }

  #pause(): void {
    this.close();
    this.#pausedAtMs = performance.now();
    this.#context.lifecycle.pauseAccepting();
    this.#count(STAT.listen_disabled_num, 1);
  }

  #refuse(fd: number, listen: Listen): void {
    const { calls } = this.#libc;
    const line = REFUSAL.TOO_MANY_CONNECTIONS;
    // A peer that expects a handshake could not read it.
    if (tlsOf(listen) === undefined) calls.send(fd, line, line.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    calls.shutdown(fd, SHUT_WR);
    calls.recv(fd, this.#address, this.#address.length, MSG_DONTWAIT);
    this.#closeFd(fd);
  }

  #closeFd(fd: number): void {
    Atomics.sub(this.#loads, this.#context.threadIndex, 1);
    this.#unreserve();
    this.#libc.calls.close(fd);
  }

  #peerText(fd: number, listen: Listen): string {
    if (listen.kind === "unix") return listenerName(listen);
    this.#addressLength[0] = ADDRESS_BYTES_MAX;
    const failed = this.#libc.calls.getpeername(fd, this.#address, this.#addressLength);
    const peer = failed === 0 ? readAddress(this.#address) : undefined;
    return peer === undefined ? "tcp:?" : statsAddressText("tcp", peer.hostname, peer.port);
  }

  #count(stat: number, by: number): void {
    this.#context.thread.memory.stats[stat]! += by;
  }
}
