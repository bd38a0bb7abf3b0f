import { cacheServices } from "../../../lib/net/cache_service.ts";
import { bindNative } from "../../../lib/net/native/bind.ts";
import { Libc } from "../../../lib/net/native/libc.ts";
import type { RoundIo } from "../../../lib/net/native/round_io.ts";
import { NativeThread } from "../../../lib/net/native/thread.ts";
import type { TransportOptions } from "../../../lib/net/transport.ts";
import { Lifecycle, LifecyclePhase } from "../../../lib/process/lifecycle.ts";
import type { ServerHooks, ThreadContext } from "../../../protocol/thread_context.ts";
import type { TlsSettings } from "../../../protocol/settings.ts";
import { joinThread, type Shared } from "../threads.ts";
import { waitingFor } from "../waiting.ts";

/** Options of a native transport of one thread. */
export const NATIVE_OPTIONS: TransportOptions = {
  threads: 1,
  listenBacklog: 64,
  maxconnsFast: true,
  idleTimeoutSec: 0,
  sendTimeoutSec: 60,
  lockIdleTimeoutSec: 0,
  authTimeoutSec: 30,
  udpReplyMaxBytes: 4096,
  tls: null,
  ioUring: "off",
};

/** The first message to a load. It posts one to say that it is ready, and ends the server by setting the phase. */
export interface LoadStart {
  readonly port: number;
  /** See `Lifecycle`. */
  readonly lifecycle: SharedArrayBuffer;
  readonly tls: boolean;
  readonly seed: number;
}

/** A server in this thread. */
export interface InProcessServer extends Shared {
  readonly hooks: Partial<ServerHooks>;
  /** Makes what receives and sends instead of one call for each connection. */
  readonly makeIo?: (libc: Libc, thread: ThreadContext, lifecycle: Lifecycle) => RoundIo;
  /** Null or left out: plain connections. */
  readonly tls?: TlsSettings | null;
  /** The module of the worker that loads the server. This thread blocks meanwhile. */
  readonly load: URL;
  readonly seed?: number;
}

/** Serves connections in this thread, until the load has ended it. */
export async function serveInThisThread(server: InProcessServer): Promise<void> {
  const { load, makeIo, tls = null, seed = 0 } = server;
  const options = { ...NATIVE_OPTIONS, tls };
  const address = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "auto" } as const;
  const host = bindNative([tls === null ? address : { ...address, tls: "tls" }], options);
  const lifeShared = Lifecycle.createShared(1);
  const thread = joinThread(server, 0, server.hooks);
  const lifecycle = new Lifecycle(lifeShared);
  const context = {
    thread,
    services: { ...cacheServices(thread, 0, () => {}), counters: null },
    threadIndex: 0,
    options,
    lifecycle,
    workerData: host.workerData(0),
    report: () => {},
  };
  const transport = new NativeThread(context, makeIo?.(new Libc(), thread, lifecycle));
  const worker = new Worker(load, { type: "module", name: "load" });
  await waitingFor("the load worker", new Promise((resolve) => worker.onmessage = resolve));
  const [listen] = host.listens;
  if (listen?.kind !== "tcp") throw new Error("Cannot know the port");
  const failed = new Promise<string>((resolve) => worker.onmessage = ({ data }) => resolve(data));
  host.listen();
  worker.postMessage(
    { port: listen.port, lifecycle: lifeShared, tls: tls !== null, seed } satisfies LoadStart,
  );
  transport.open();
  lifecycle.phase = LifecyclePhase.RUNNING;
  transport.serve();
  host.close();
  const failure = await waitingFor("the load's result", failed, Infinity);
  worker.terminate();
  if (failure !== "") throw new Error(failure);
}
