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

/** A thread that serves connections, as the others know it. */
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

/** Whether a transport serves this kind of listener; what it does not is served by a portable thread beside it. */
export function serves(name: TransportName, listen: Listen): boolean {
  return name === "portable" || listen.kind !== "udp";
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
  members: readonly ThreadMember[],
  lifecycle: Lifecycle,
): (threadIndex: number) => void {
  const native = members.find(({ transport }) => transport === "native");
  if (native === undefined) return (index) => lifecycle.wake(index);
  const { wakeFds } = native.workerData as NativeWorkerData;
  const waker = new NativeWaker(new Libc().calls, wakeFds);
  return (index) => {
    if (members[index]?.transport === "native") waker.wake(index);
    else lifecycle.wake(index);
  };
}

/** On a worker: what serves the connections. */
export function createTransport(name: TransportName, context: TransportContext): Transport {
  return name === "native" ? new NativeThread(context) : new PortableThread(context);
}
