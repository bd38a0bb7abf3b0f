import type { TlsSettings } from "../../../protocol/settings.ts";
import type { Lifecycle } from "../../process/lifecycle.ts";
import { readRegularTextFile } from "../../process/file_kinds.ts";
import { reasonOf } from "../../process/reason.ts";
import {
  type BoundTransport,
  type Listen,
  ListenError,
  listenText,
  type TcpListen,
  TlsError,
  type TransportOptions,
  type UnixListen,
} from "../transport.ts";
import { requireDescriptors } from "../descriptors.ts";
import { resourceShortage } from "./sockets.ts";
import { claimSocketPath, removeSocketFile, socketFileId } from "../unix_socket.ts";

/** Passed to a worker: the addresses it opens itself. */
export interface PortableWorkerData {
  readonly listens: readonly Listen[];
  /** Null without `-Z`. */
  readonly certificate: Certificate | null;
}

/** The contents of the files of `--ssl-chain-cert` and `--ssl-key`. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly loadedAtMs: number;
}

/**
 * Whether the kernel spreads connections over several listeners of one port. Without it the first
 * worker accepts all connections.
 */
const SPREADS_CONNECTIONS = Deno.build.os === "linux";

/** The runtime's setting, read when a thread starts: turns of the event loop between two polls of the sockets. */
const POLL_INTERVAL_VARIABLE = "DENO_TOKIO_EVENT_INTERVAL";

/** A poll costs about as much as a short request, and a turn serves one slice of a busy connection. */
const POLL_INTERVAL_TURNS = 3;

/**
 * Makes workers that start later poll their sockets every few turns of the event loop. By default the runtime polls
 * them on every 61st while there is work: a new request would wait for 61 slices of busy connections. Does nothing
 * without the permission to set the variable, or if it is set.
 */
function pollOften(): void {
  const permission = { name: "env", variable: POLL_INTERVAL_VARIABLE } as const;
  if (Deno.permissions.querySync(permission).state !== "granted") return;
  if (Deno.env.get(POLL_INTERVAL_VARIABLE) === undefined) {
    Deno.env.set(POLL_INTERVAL_VARIABLE, `${POLL_INTERVAL_TURNS}`);
  }
}

/**
 * Checks that the addresses are free before any worker starts, and chooses a port where the option is 0.
 *
 * The workers' listeners share their port with each other, which alone would let two servers share one port unnoticed.
 *
 * @throws ListenError when the server cannot listen on an address.
 * @throws DescriptorError
 * @throws TlsError when the certificate cannot be read.
 */
export async function bindPortable(
  listens: readonly Listen[],
  options: TransportOptions,
  lifecycle: Lifecycle,
): Promise<BoundTransport> {
  pollOften();
  const address = listens.find((listen) => listen.kind !== "unix");
  if (address !== undefined) {
    requireDescriptors(options.threads, () => openDescriptor(address.hostname));
  }
  const certificate = options.tls === null ? null : readCertificate(options.tls);
  const bound: Listen[] = [];
  for (const listen of listens) bound.push(await tryListen(listen, options));
  // Their inodes. The first worker has created them when `listen` is called.
  const socketFiles = new Map<UnixListen, number>();
  return {
    name: "portable",
    usesIoUring: false,
    ioUringReason: "",
    listens: bound,
    workerData: (threadIndex): PortableWorkerData => ({
      listens: bound.filter((listen) =>
        threadIndex === 0 || (listen.kind === "tcp" && SPREADS_CONNECTIONS)
      ),
      certificate,
    }),
    refreshCertificates: refuseRefresh,
    get certificateAgeSec(): number {
      return certificateAgeSec(certificate);
    },
    certificateGeneration: 0,
    wake: (threadIndex) => lifecycle.wake(threadIndex),
    listen: () => {
      for (const listen of bound) {
        const id = listen.kind === "unix" ? socketFileId(listen) : null;
        if (id !== null) socketFiles.set(listen as UnixListen, id);
      }
    },
    close: () => {
      for (const [listen, id] of socketFiles) removeSocketFile(listen, id);
      socketFiles.clear();
    },
  };
}

function readCertificate({ chainCert, key }: TlsSettings): Certificate {
  const read = (what: string, path: string): string => {
    try {
      return readRegularTextFile(path);
    } catch (error) {
      throw new TlsError(`Error loading the ${what}: ${path} : ${reasonOf(error)}`);
    }
  };
  const certificate = {
    cert: read("certificate chain", chainCert),
    key: read("key", key),
    loadedAtMs: Date.now(),
  };
  try {
    const { cert, key } = certificate;
    Deno.listenTls({ hostname: "127.0.0.1", port: 0, cert, key }).close();
  } catch (error) {
    // The permission may cover the ports of the options only, which the workers open.
    if (error instanceof Deno.errors.NotCapable) return certificate;
    throw new TlsError(`Error validating the certificate: ${chainCert} : ${reasonOf(error)}`);
  }
  return certificate;
}

/** Returns the seconds since the certificate was loaded, or 0 without a certificate. */
export function certificateAgeSec(certificate: Certificate | null): number {
  return certificate === null ? 0 : Math.floor((Date.now() - certificate.loadedAtMs) / 1000);
}

/** @throws TlsError */
export function refuseRefresh(): void {
  throw new TlsError(
    "Error refreshing certificates: the portable transport loads them at its start only; restart the server",
  );
}

/** Opens a descriptor. Returns a function that closes it, or null when none is left. */
function openDescriptor(hostname: string): (() => void) | null {
  try {
    const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
    return () => socket.close();
  } catch (error) {
    if (resourceShortage(error) !== "") return null;
    // A wrong address, or a missing permission: opening the listener reports it.
    return () => {};
  }
}

async function tryListen(listen: Listen, options: TransportOptions): Promise<Listen> {
  if (listen.kind === "unix") {
    await claimSocketPath(listen);
    return listen;
  }
  if (listen.kind === "tcp" && listen.port !== 0) {
    await expectFree(listen);
    return listen;
  }
  const socket = openSocket(listen, options.listenBacklog, false);
  const { addr } = socket;
  socket.close();
  return "port" in addr ? { ...listen, port: addr.port } : listen;
}

/**
 * Checks that this machine has the address and no process listens on it. A trial listener would find more faults, but
 * would accept connections of clients that wait for the server, and reset them.
 *
 * @throws ListenError
 */
async function expectFree(listen: TcpListen): Promise<void> {
  const { hostname, port } = listen;
  try {
    Deno.listenDatagram({ transport: "udp", hostname, port }).close();
  } catch (error) {
    // A UDP socket on this port does not conflict with a TCP listener.
    if (!(error instanceof Deno.errors.AddrInUse)) throw listenError(listen, error);
  }
  let peer: Deno.TcpConn;
  try {
    peer = await Deno.connect({ hostname, port });
  } catch {
    return;
  }
  // The kernel may choose this very port for the client: the socket is then connected to itself.
  const isOwn = peer.localAddr.port === port;
  peer.close();
  if (!isOwn) {
    throw new ListenError(listen, "EADDRINUSE", `cannot listen on ${listenText(listen)}: in use`);
  }
}

/** The result of `openSocket`. */
type ListeningSocket =
  | Deno.TcpListener
  | Deno.TlsListener
  | Deno.UnixListener
  | Deno.DatagramConn;

/**
 * Opens a listening socket.
 *
 * @param shared Whether other threads listen on the same port.
 * @param certificate Of a listener with TLS.
 * @throws ListenError
 */
export function openSocket(
  listen: Listen,
  backlog: number,
  shared: boolean,
  certificate: Certificate | null = null,
): ListeningSocket {
  try {
    switch (listen.kind) {
      case "tcp": {
        const { hostname, port } = listen;
        const address = { hostname, port, tcpBacklog: backlog, reusePort: shared };
        if (listen.tls === undefined || certificate === null) return Deno.listen(address);
        const { cert, key } = certificate;
        return Deno.listenTls({ ...address, cert, key });
      }
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
    throw listenError(listen, error);
  }
}

/** Returns the error to throw when the runtime cannot open a socket. */
function listenError(listen: Listen, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Deno.errors.NotCapable) return error;
  const code = (error as { code?: string }).code ?? error.name;
  return new ListenError(listen, code, `cannot listen on ${listenText(listen)}: ${error.message}`);
}
