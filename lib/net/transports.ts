import type { Lifecycle } from "../process/lifecycle.ts";
import { bootClock, Libc, libcAvailable } from "./native/libc.ts";
import { bindNative, type NativeWorkerData } from "./native/bind.ts";
import { sendDatagram } from "./native/notify_socket.ts";
import { NativeWaker } from "./native/waker.ts";
import { NativeThread } from "./native/thread.ts";
import { bindPortable } from "./portable/bind.ts";
import { PortableThread } from "./portable/thread.ts";
import {
  type BoundTransport,
  IoUringError,
  type Listen,
  type TransportOptions,
} from "./transport.ts";
import type { Transport, TransportContext } from "./worker_transport.ts";

export { probeSystem } from "./native/probe.ts";

/** The name of a transport. */
export type TransportName = BoundTransport["name"];

/** The data with which another thread wakes serving threads; that of one thread wakes any of them. */
export interface ThreadMember {
  readonly transport: TransportName;
  /** The result of `BoundTransport.workerData`. */
  readonly workerData: unknown;
}

/** Returns the transport that `--io` selects on this system. */
export function chooseTransport(io: "auto" | TransportName): TransportName {
  if (io !== "auto") return io;
  return libcAvailable() ? "native" : "portable";
}

/**
 * On the main thread: binds the addresses.
 *
 * @param passedFds Sockets that a service manager has bound; the portable transport can use none.
 * @throws ListenError when the server cannot listen on one.
 * @throws IoUringError when the options want io_uring and this process cannot use it.
 */
export async function bindTransport(
  name: TransportName,
  listens: readonly Listen[],
  options: TransportOptions,
  lifecycle: Lifecycle,
  passedFds: readonly number[],
): Promise<BoundTransport> {
  if (name === "native") return bindNative(listens, options, passedFds);
  if (options.ioUring === "on") {
    throw new IoUringError("the portable transport has none; use --io=native");
  }
  return await bindPortable(listens, options, lifecycle);
}

/** On a thread that serves no connections: returns a function that wakes a serving thread. */
export function createWaker(
  { transport, workerData }: ThreadMember,
  lifecycle: Lifecycle,
): (threadIndex: number) => void {
  if (transport === "portable") return (index) => lifecycle.wake(index);
  const waker = new NativeWaker(new Libc().calls, (workerData as NativeWorkerData).wakeFds);
  return (index) => waker.wake(index);
}

/**
 * Returns a clock in milliseconds that all threads share and that cannot be set. Without the C library it stands still
 * while the machine is suspended.
 */
export function createClock(name: TransportName): () => number {
  if (name === "native") return bootClock(new Libc().calls);
  const { timeOrigin } = performance;
  return () => timeOrigin + performance.now();
}

/**
 * Returns a function that sends a datagram to a Unix socket, and says whether it could; null: the transport has none.
 *
 * @param socket A path, or a name of the abstract namespace with an @ in front.
 */
export function notifier(
  name: TransportName,
  socket: string,
): ((text: string) => boolean) | null {
  if (name === "portable") return null;
  const libc = new Libc();
  return (text) => sendDatagram(libc, socket, text);
}

/** On a worker: creates the transport that serves its connections. */
export function createTransport(name: TransportName, context: TransportContext): Transport {
  return name === "native" ? new NativeThread(context) : new PortableThread(context);
}
