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
import { PassedSockets } from "./passed_sockets.ts";
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
 * @param passedFds Sockets that a service manager has bound.
 * @throws {ListenError} When the server cannot listen on an address.
 * @throws {DescriptorError}
 * @throws {TlsError} When the certificates cannot be loaded.
 * @throws {IoUringError} When the options want io_uring and this process cannot use it.
 */
export function bindNative(
  listens: readonly Listen[],
  options: TransportOptions,
  passedFds: readonly number[] = [],
): BoundTransport {
  const libc = new Libc();
  const passed = new PassedSockets(libc, passedFds);
  const listeners: NativeListener[] = [];
  let tls: TlsContexts | null = null;
  try {
    if (options.tls !== null) tls = loadCertificates(options.tls);
    requireDescriptors(options.threads, () => {
      const fd = libc.calls.eventfd(0, EFD_CLOEXEC);
      return fd < 0 ? null : () => libc.calls.close(fd);
    });
    for (const listen of listens) {
      if (listen.kind === "unix") listeners.push(reserveUnix(libc, listen, passed));
      else listeners.push(...bindNetwork(libc, listen, passed));
    }
    const rings = openRings(libc, options);
    return boundTransport(libc, listeners, options, tls, rings, passed.unused);
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

function loadCertificates(settings: TlsSettings): TlsContexts {
  const contexts = new TlsContexts(new OpenSsl(), settings, TlsContexts.createShared());
  contexts.load();
  return contexts;
}

/**
 * Time between two calls of malloc_trim, which returns memory that the engine's compilers have freed: the C library
 * otherwise keeps its high-water mark. A call takes a fraction of a millisecond if nothing was freed, otherwise a few.
 * Threads that call malloc during it wait; serving a request seldom does.
 */
const TRIM_MS = 5000;

function boundTransport(
  libc: Libc,
  listeners: readonly NativeListener[],
  { threads, listenBacklog }: TransportOptions,
  tls: TlsContexts | null,
  { rings, reason }: Rings,
  unusedSockets: readonly string[],
): BoundTransport {
  const streams = listeners.filter((listener) => !isUdp(listener));
  const datagrams = listeners.filter(isUdp);
  const workerData: NativeWorkerData = {
    listens: streams.map(({ listen }) => listen),
    listenFds: streams.map(({ fd }) => fd),
    udp: datagrams.map(({ fd, listen }) => ({ fd, protocol: listen.protocol })),
    epollFds: Array.from({ length: threads }, () => createEpoll(libc)),
    wakeFds: Array.from(
      { length: threads },
      () => libc.calls.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
    ),
    rings,
    loads: createLoads(threads),
    tls: tls?.shared ?? null,
  };
  const waker = new NativeWaker(libc.calls, workerData.wakeFds);
  const trimTimer = setInterval(() => libc.calls.malloc_trim(0), TRIM_MS);
  let isClosed = false;
  return {
    name: "native",
    usesIoUring: rings.length > 0,
    ioUringReason: reason,
    listens: listeners.map(({ listen }) => listen),
    unusedSockets,
    workerData: () => workerData,
    wake(threadIndex): void {
      if (!isClosed) waker.wake(threadIndex);
    },
    listen(): void {
      // UDP first: a client that has got a reply over TCP gets one over UDP too.
      for (const listener of [...datagrams, ...streams]) {
        startListening(libc, listener, listenBacklog);
      }
    },
    get certificateAgeSec(): number {
      return tls?.ageSec ?? 0;
    },
    get certificateGeneration(): number {
      return tls?.generation ?? 0;
    },
    refreshCertificates: () => tls?.load(),
    close(): void {
      if (isClosed) return;
      isClosed = true;
      clearInterval(trimTimer);
      closeListeners(libc, listeners);
      libc[Symbol.dispose]();
    },
  };
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
