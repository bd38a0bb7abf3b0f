import { ConnectionKind } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../accept_failures.ts";
import type { Service } from "../service.ts";
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
import { ABSENT_LOAD, type NativeWorkerData } from "./bind.ts";
import { NativeConnection } from "./connection.ts";
import { ADDRESS_BYTES_MAX, readAddress } from "./socket_address.ts";
import { type Listen, listenerName, statsAddressText, type TlsMode, tlsOf } from "../transport.ts";
import type { TransportContext } from "../worker_transport.ts";

/** Connections accepted in one slice; then open connections are served. */
const ACCEPTS_MAX = 32;
/**
 * Bit of a descriptor's tag, beside the number of its listener: no worker has adopted the descriptor yet. An event
 * without this bit, for a descriptor that the worker does not know, belongs to a connection that was closed after the
 * wait; another worker's new connection may have the same number.
 */
const HANDED_OVER = 1 << 16;

/**
 * Opens and closes one worker's connections. Every worker accepts from the same listeners, and gives each new
 * connection to the worker that has the fewest: it adds the descriptor to that worker's epoll instance, armed for
 * EPOLLOUT, which fires at once, so that worker adopts it. The connections of a service that is not shared stay with
 * the worker that serves it.
 */
export class NativeAcceptor {
  readonly #context: TransportContext;
  readonly #workerData: NativeWorkerData;
  readonly #libc: Libc;
  readonly #epoll: Epoll;
  /** Open connections of each worker, then those of shared services on all workers. */
  readonly #loads: Int32Array;
  readonly #address = new Uint8Array(ADDRESS_BYTES_MAX);
  readonly #addressLength = new Int32Array(1);
  /** The service of each listener; null: another worker's. */
  readonly #services: readonly (Service | null)[];
  #listening = false;
  /** Time at which accepting stopped, on the process's clock; 0 while it accepts. */
  #pausedAtMs = 0;
  readonly #acceptFailures: AcceptFailures;

  constructor(context: TransportContext, libc: Libc, epoll: Epoll) {
    this.#context = context;
    this.#workerData = context.workerData as NativeWorkerData;
    this.#libc = libc;
    this.#epoll = epoll;
    this.#services = this.#workerData.listens.map(({ protocol }) => context.services[protocol]);
    this.#acceptFailures = new AcceptFailures((event) => context.report(event));
    this.#loads = new Int32Array(this.#workerData.loads);
  }

  /** Length of the present pause in accepting; 0: no pause. */
  get pauseMs(): number {
    return this.#pausedAtMs === 0 ? 0 : ACCEPT_PAUSE_MS;
  }

  /** Lets the other workers give connections to this one. */
  join(): void {
    Atomics.sub(this.#loads, this.#context.threadIndex, ABSENT_LOAD);
  }

  open(): void {
    this.#listening = true;
    for (const [fd, tag] of this.#listeners()) {
      this.#epoll.add(fd, EPOLLIN | EPOLLEXCLUSIVE, tag);
    }
  }

  close(): void {
    if (!this.#listening) return;
    this.#listening = false;
    for (const [fd] of this.#listeners()) this.#epoll.remove(fd);
  }

  /** The listening sockets that this worker accepts from, with the numbers of their listeners. */
  *#listeners(): Generator<[fd: number, tag: number]> {
    for (const [tag, fd] of this.#workerData.listenFds.entries()) {
      if (this.#services[tag] !== null) yield [fd, tag];
    }
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
    const rounds = Math.ceil(this.#context.options.listenBacklog / ACCEPTS_MAX);
    for (const [fd] of this.#listeners()) {
      for (let round = 0; round < rounds && this.#listening; round++) this.accept(fd);
    }
  }

  /** Accepts the waiting connections of a listener, and gives each to a worker. */
  accept(listenFd: number): void {
    const tag = this.#workerData.listenFds.indexOf(listenFd);
    const service = this.#services[tag]!;
    for (let accepts = 0; accepts < ACCEPTS_MAX; accepts++) {
      if (!this.#reserve(service)) return;
      const flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
      const fd = this.#libc.calls.accept4(listenFd, null, null, flags);
      if (fd < 0) {
        const { errno } = this.#libc;
        this.#unreserve(service);
        if (errno !== EAGAIN) this.#acceptFailed(errno);
        return;
      }
      this.#handOver(fd, tag, service);
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
    const service = this.#services[tag]!;
    const kind = listen.kind === "unix" ? ConnectionKind.UNIX : ConnectionKind.TCP;
    const conversation = service.open(kind, this.#peerText(fd, listen), listenerName(listen));
    if (conversation === null) {
      this.#refuse(fd, listen, service);
      return undefined;
    }
    this.#epoll.modify(fd, EPOLLIN, tag);
    return new NativeConnection(fd, tag, kind, service, conversation);
  }

  /** Releases the resources of a connection. Its conversation must have ended. */
  release({ service, id, closeReason, fd }: NativeConnection): void {
    service.close(id, closeReason);
    this.#closeFd(fd, service);
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

  #handOver(fd: number, tag: number, service: Service): void {
    const loads = this.#loads;
    let target = this.#context.threadIndex;
    let least = Atomics.load(loads, target);
    for (let index = 0; service.isShared && index < this.#context.options.threads; index++) {
      const load = Atomics.load(loads, index);
      if (load < least) [target, least] = [index, load];
    }
    Atomics.add(loads, target, 1);
    const events = EPOLLIN | EPOLLOUT;
    if (this.#epoll.addTo(this.#workerData.epollFds[target]!, fd, events, tag | HANDED_OVER)) {
      return;
    }
    Atomics.sub(loads, target, 1);
    this.#unreserve(service);
    this.#libc.calls.close(fd);
  }

  /** Counts a connection. Under `no_maxconns_fast` returns false, and pauses, if there is no room for it. */
  #reserve(service: Service): boolean {
    if (!service.isShared) return true;
    const total = this.#context.options.threads;
    const open = Atomics.add(this.#loads, total, 1);
    if (this.#context.options.maxconnsFast || open < service.connections.rows) return true;
    this.#unreserve(service);
    this.#pause();
    return false;
  }

  #unreserve(service: Service): void {
    if (service.isShared) Atomics.sub(this.#loads, this.#context.options.threads, 1);
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

  #refuse(fd: number, listen: Listen, service: Service): void {
    const { calls } = this.#libc;
    const line = service.refusal;
    // A peer that expects a handshake could not read it.
    if (tlsOf(listen) === undefined) calls.send(fd, line, line.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    calls.shutdown(fd, SHUT_WR);
    calls.recv(fd, this.#address, this.#address.length, MSG_DONTWAIT);
    this.#closeFd(fd, service);
  }

  #closeFd(fd: number, service: Service): void {
    Atomics.sub(this.#loads, this.#context.threadIndex, 1);
    this.#unreserve(service);
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
