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

/** The transports there are. */
export type TransportName = BoundTransport["name"];

/** A thread that serves connections, as the others know it; to wake them, one stands for all. */
export interface ThreadMember {
  readonly transport: TransportName;
  /** The result of `BoundTransport.workerData`. */
  readonly workerData: unknown;
}

/** Which transport `--io` comes to here. */
export function chooseTransport(io: "auto" | TransportName): TransportName {
  if (io !== "auto") return io;
  return libcAvailable() ? "native" : "portable";
}

/**
 * On the main thread: takes the addresses.
 *
 * @throws ListenError when one cannot be had.
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

/** On a thread that serves no connections: a function that wakes a thread that does. */
export function createWaker(
  { transport, workerData }: ThreadMember,
  lifecycle: Lifecycle,
): (threadIndex: number) => void {
  if (transport === "portable") return (index) => lifecycle.wake(index);
  const waker = new NativeWaker(new Libc().calls, (workerData as NativeWorkerData).wakeFds);
  return (index) => waker.wake(index);
}

/** On a worker: what serves the connections. */
export function createTransport(name: TransportName, context: TransportContext): Transport {
  return name === "native" ? new NativeThread(context) : new PortableThread(context);
}
