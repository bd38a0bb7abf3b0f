import { requireDescriptors } from "../descriptors.ts";
import { type OpenRing, openRing } from "./io_uring.ts";
import { createEpoll } from "./epoll.ts";
import { EFD_CLOEXEC, EFD_NONBLOCK, Libc } from "./libc.ts";
import {
  bindNetwork,
  type NativeListener,
  removeSocketFile,
  reserveUnix,
  startListening,
} from "./listener.ts";
import { NativeWaker } from "./waker.ts";
import type { TlsSettings, WireProtocol } from "../../../protocol/settings.ts";
import { SLOTS } from "./inbox.ts";
import { REPLIES_MAX } from "./outbox.ts";
import {
  type BoundTransport,
  IoUringError,
  type Listen,
  type TransportOptions,
  type UdpListen,
} from "../transport.ts";
import { TlsContexts } from "./tls/contexts.ts";
import { OpenSsl } from "./tls/openssl.ts";

/** Added to the load of a worker that cannot serve yet: more than any number of connections. */
export const ABSENT_LOAD = 2 ** 30;

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
  /** The ring of each worker; empty: they use no io_uring. */
  readonly rings: readonly OpenRing[];
  /** Words: open connections of each worker (and `ABSENT_LOAD`), then of all workers. */
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
 * @throws {IoUringError} When the options want io_uring and this process cannot use it.
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
      if (listen.kind === "unix") listeners.push(reserveUnix(libc, listen));
      else listeners.push(...bindNetwork(libc, listen));
    }
    return new BoundNative(libc, listeners, options, tls, openRings(libc, options));
  } catch (error) {
    closeListeners(libc, listeners);
    libc[Symbol.dispose]();
    throw error;
  }
}

/** The rings of all workers, or the reason why there are none. */
interface Rings {
  readonly rings: readonly OpenRing[];
  readonly reason: string;
}

/** Operations of one round. */
const RING_ENTRIES = Math.max(SLOTS, REPLIES_MAX);

function openRings(libc: Libc, { ioUring, threads }: TransportOptions): Rings {
  const rings: OpenRing[] = [];
  if (ioUring === "off") return { rings, reason: "" };
  try {
    while (rings.length < threads) rings.push(openRing(libc, RING_ENTRIES));
    return { rings, reason: "" };
  } catch (error) {
    for (const { fd } of rings) libc.calls.close(fd);
    if (!(error instanceof IoUringError) || ioUring === "on") throw error;
    return { rings: [], reason: error.message };
  }
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
  readonly usesIoUring: boolean;
  readonly ioUringReason: string;
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
    { rings, reason }: Rings,
  ) {
    const { threads, backlog } = options;
    this.#libc = libc;
    this.#backlog = backlog;
    this.#tls = tls;
    this.usesIoUring = rings.length > 0;
    this.ioUringReason = reason;
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
      rings,
      loads: createLoads(threads),
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

  get certificateAgeSec(): number {
    return this.#tls?.contexts.ageSec ?? 0;
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

function createLoads(threads: number): SharedArrayBuffer {
  const loads = new SharedArrayBuffer(4 * (threads + 1));
  new Int32Array(loads).fill(ABSENT_LOAD, 0, threads);
  return loads;
}

function isUdp(listener: NativeListener): listener is NativeListener & { listen: UdpListen } {
  return listener.listen.kind === "udp";
}

function closeListeners(libc: Libc, listeners: readonly NativeListener[]): void {
  for (const listener of listeners) {
    libc.calls.close(listener.fd);
    removeSocketFile(libc, listener);
  }
}
