import type { Lifecycle } from "../../lifecycle.ts";
import {
  type BoundTransport,
  type Listen,
  ListenError,
  listenText,
  type TransportOptions,
} from "../transport.ts";
import { claimSocketPath, removeSocketFile } from "../unix_socket.ts";

/** Passed to a worker: the addresses it opens itself. */
export interface PortableWorkerData {
  readonly listens: readonly Listen[];
}

/**
 * Whether the kernel spreads connections over several listeners of one port. Elsewhere the first
 * worker accepts them all.
 */
const SPREADS_CONNECTIONS = Deno.build.os === "linux";

/**
 * Binds every address for a moment, to report one in use before any worker starts, and to choose the ports of 0.
 *
 * The trial does not share its port. The workers' listeners do, with each other, and that alone would let two servers
 * share one port unnoticed.
 *
 * @throws ListenError when an address cannot be had.
 */
export async function bindPortable(
  listens: readonly Listen[],
  options: TransportOptions,
  lifecycle: Lifecycle,
): Promise<BoundTransport> {
  const bound: Listen[] = [];
  for (const listen of listens) bound.push(await tryListen(listen, options));
  return {
    name: "portable",
    listens: bound,
    workerData: (threadIndex): PortableWorkerData => ({
      listens: bound.filter((listen) =>
        threadIndex === 0 || (listen.kind === "tcp" && SPREADS_CONNECTIONS)
      ),
    }),
    wake: (threadIndex) => lifecycle.wake(threadIndex),
    close: () => {
      for (const listen of bound) if (listen.kind === "unix") removeSocketFile(listen);
    },
  };
}

async function tryListen(listen: Listen, options: TransportOptions): Promise<Listen> {
  if (listen.kind === "unix") await claimSocketPath(listen);
  const socket = openSocket(listen, options.backlog, false);
  const { addr } = socket;
  socket.close();
  return "port" in addr && listen.kind !== "unix" ? { ...listen, port: addr.port } : listen;
}

/** What `openSocket` opens. */
export type ListeningSocket = Deno.TcpListener | Deno.UnixListener | Deno.DatagramConn;

/**
 * Opens a listening socket.
 *
 * @param shared Whether other threads listen on the same port.
 * @throws ListenError
 */
export function openSocket(listen: Listen, backlog: number, shared: boolean): ListeningSocket {
  try {
    switch (listen.kind) {
      case "tcp":
        return Deno.listen({
          hostname: listen.hostname,
          port: listen.port,
          tcpBacklog: backlog,
          reusePort: shared,
        });
      case "udp":
        return Deno.listenDatagram({
          transport: "udp",
          hostname: listen.hostname,
          port: listen.port,
        });
      case "unix":
        return Deno.listen({ transport: "unix", path: listen.path });
    }
  } catch (error) {
    if (!(error instanceof Error) || error instanceof Deno.errors.NotCapable) throw error;
    const code = (error as { code?: string }).code ?? error.name;
    throw new ListenError(listen, code, `cannot listen on ${listenText(listen)}: ${error.message}`);
  }
}
