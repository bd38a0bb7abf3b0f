import type { Lifecycle } from "../lifecycle.ts";
import { Libc, libcAvailable } from "./native/libc.ts";
import { bindNative, type NativeWorkerData } from "./native/bind.ts";
import { NativeWaker } from "./native/waker.ts";
import { NativeThread } from "./native/thread.ts";
import { bindPortable } from "./portable/bind.ts";
import { PortableThread } from "./portable/thread.ts";
import type {
  BoundTransport,
  Listen,
  Transport,
  TransportContext,
  TransportOptions,
} from "./transport.ts";

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
 * @throws ListenError when the server cannot listen on one.
 */
export async function bindTransport(
  name: TransportName,
  listens: readonly Listen[],
  options: TransportOptions,
  lifecycle: Lifecycle,
): Promise<BoundTransport> {
  return name === "native"
    ? bindNative(listens, options)
    : await bindPortable(listens, options, lifecycle);
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

/** On a worker: creates the transport that serves its connections. */
export function createTransport(name: TransportName, context: TransportContext): Transport {
  return name === "native" ? new NativeThread(context) : new PortableThread(context);
}
