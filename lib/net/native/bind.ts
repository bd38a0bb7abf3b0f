import { requireDescriptors } from "../descriptors.ts";
import { createEpoll } from "./epoll.ts";
import { EFD_CLOEXEC, EFD_NONBLOCK, Libc } from "./libc.ts";
import {
  bindNetwork,
  bindUnix,
  type NativeListener,
  removeSocketFile,
  startListening,
} from "./listener.ts";
import { NativeWaker } from "./waker.ts";
import type { TlsSettings, WireProtocol } from "../../../protocol/settings.ts";
import type { BoundTransport, Listen, TransportOptions } from "../transport.ts";
import { TlsContexts } from "./tls/contexts.ts";
import { OpenSsl } from "./tls/openssl.ts";

/** Passed to every worker. Descriptors belong to the process, so their numbers are valid in every thread. */
export interface NativeWorkerData {
  /** Listeners for connections. */
  readonly listens: readonly Listen[];
  /** The listening socket of each of `listens`. */
  readonly listenFds: readonly number[];
  /** The sockets for datagrams. Worker `index % threads` serves number `index`. */
  readonly udp: readonly { readonly fd: number; readonly protocol: WireProtocol }[];
  /** The epoll instance of each worker. */
  readonly epollFds: readonly number[];
  /** The eventfd of each worker, which ends its epoll_wait. */
  readonly wakeFds: readonly number[];
  /** Words: open connections of each worker, then of all workers. */
  readonly loads: SharedArrayBuffer;
  /** The certificates (`TlsContexts`); null without `-Z`. */
  readonly tls: SharedArrayBuffer | null;
}

/**
 * Binds the listeners, and opens each worker's epoll instance.
 *
 * @throws {ListenError} When the server cannot listen on an address.
 * @throws {DescriptorError}
 * @throws {TlsError} When the certificates cannot be loaded.
 */
export function bindNative(listens: readonly Listen[], options: TransportOptions): BoundTransport {
  const libc = new Libc();
  const listeners: NativeListener[] = [];
  let tls: BoundTls | null = null;
  try {
    if (options.tls !== null) tls = loadCertificates(options.tls);
    requireDescriptors(options.threads, () => {
      const fd = libc.calls.eventfd(0, EFD_CLOEXEC);
      return fd < 0 ? null : () => libc.calls.close(fd);
    });
    for (const listen of listens) {
      if (listen.kind === "unix") listeners.push(bindUnix(libc, listen));
      else listeners.push(...bindNetwork(libc, listen));
    }
  } catch (error) {
    closeListeners(libc, listeners);
    libc[Symbol.dispose]();
    throw error;
  }
  return new BoundNative(libc, listeners, options, tls);
}

/** The certificates, and the memory in which all threads find them. */
interface BoundTls {
  readonly contexts: TlsContexts;
  readonly shared: SharedArrayBuffer;
}

function loadCertificates(settings: TlsSettings): BoundTls {
  const shared = TlsContexts.createShared();
  const contexts = new TlsContexts(new OpenSsl(), settings, shared);
  contexts.load();
  return { contexts, shared };
}

/**
 * Time between two calls of malloc_trim, which returns memory that the engine's compilers have freed: the C library
 * otherwise keeps its high-water mark. A call takes a fraction of a millisecond if nothing was freed, otherwise a few.
 * Threads that call malloc meanwhile wait; serving a request seldom does.
 */
const TRIM_MS = 5000;

class BoundNative implements BoundTransport {
  readonly name = "native";
  readonly listens: readonly Listen[];
  readonly #libc: Libc;
  readonly #listeners: readonly NativeListener[];
  readonly #backlog: number;
  readonly #workerData: NativeWorkerData;
  readonly #waker: NativeWaker;
  readonly #trimTimer: ReturnType<typeof setInterval>;
  readonly #tls: BoundTls | null;
  #closed = false;

  constructor(
    libc: Libc,
    listeners: readonly NativeListener[],
    options: TransportOptions,
    tls: BoundTls | null,
  ) {
    const { threads, backlog } = options;
    this.#libc = libc;
    this.#backlog = backlog;
    this.#tls = tls;
    // UDP first: a client that has got a reply over TCP gets one over UDP too.
    this.#listeners = listeners.toSorted((a, b) => Number(isUdp(b)) - Number(isUdp(a)));
    this.listens = listeners.map(({ listen }) => listen);
    const ofThreads = { length: threads };
    const streams = listeners.filter((listener) => !isUdp(listener));
    this.#workerData = {
      listens: streams.map(({ listen }) => listen),
      listenFds: streams.map(({ fd }) => fd),
      udp: listeners.filter(isUdp).map(({ fd, listen }) => ({ fd, protocol: listen.protocol })),
      epollFds: Array.from(ofThreads, () => createEpoll(libc)),
      wakeFds: Array.from(ofThreads, () => libc.calls.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      loads: new SharedArrayBuffer(4 * (threads + 1)),
      tls: tls?.shared ?? null,
    };
    this.#waker = new NativeWaker(libc.calls, this.#workerData.wakeFds);
    this.#trimTimer = setInterval(() => libc.calls.malloc_trim(0), TRIM_MS);
  }

  workerData(_threadIndex: number): NativeWorkerData {
    return this.#workerData;
  }

  wake(threadIndex: number): void {
    if (!this.#closed) this.#waker.wake(threadIndex);
  }

  listen(): void {
    for (const listener of this.#listeners) startListening(this.#libc, listener, this.#backlog);
  }

  refreshCertificates(): void {
    this.#tls?.contexts.load();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#trimTimer);
    closeListeners(this.#libc, this.#listeners);
    this.#libc[Symbol.dispose]();
  }
}

function isUdp({ listen }: NativeListener): boolean {
  return listen.kind === "udp";
}

function closeListeners(libc: Libc, listeners: readonly NativeListener[]): void {
  for (const { fd, listen } of listeners) {
    libc.calls.close(fd);
    if (listen.kind === "unix") removeSocketFile(libc, listen.path);
  }
}
