import { addressOf, type Authenticator } from "../auth/authenticator.ts";
import { announceMetrics } from "../admin/announce.ts";
import { AdminServer } from "../admin/http_server.ts";
import { ExitCode } from "../cli/exit.ts";
import { logProcess } from "../log.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../net/accept_failures.ts";
import {
  closeQuietly,
  pause,
  peerName,
  prepareTcp,
  resourceShortage,
} from "../net/portable/sockets.ts";
import { hostPortText, type TransportEvent } from "../net/transport.ts";
import { reasonOf } from "../reason.ts";
import type { Backend } from "../rows/databases/backend.ts";
import { ProxyConnection } from "./connection.ts";
import type { Login } from "./peer_access.ts";
import { timeoutOf } from "./connection_timeouts.ts";
import { watchEpoch } from "./epoch_watch.ts";
import { databaseName } from "../rows/databases/open_backend.ts";
import { type ProxyOptions, unprotected } from "./options.ts";
import type { Proxy } from "./proxy.ts";
import { REPLY } from "./replies.ts";
import { proxyMetrics } from "./statistics/metrics.ts";

/** How often the database forgets old tokens. */
const PURGE_INTERVAL_MS = 60_000;
/** How often connections are closed whose time is up. */
const SWEEP_MS = 1000;
/** Time for requests in progress after a signal. */
const DRAIN_MS_MAX = 5000;
/** How long a deposed proxy refuses the requests of its connections before it closes them. */
const DEPOSED_MS = 1000;
const TOO_MANY_CONNECTIONS = new TextEncoder().encode(`${REPLY.TOO_MANY_CONNECTIONS}\r\n`);

type Listener = Deno.TcpListener | Deno.TlsListener;
type Socket = Deno.TcpConn | Deno.TlsConn;

function listen(hostname: string, port: number, tls: ProxyOptions["tls"]): Listener {
  if (tls === null) return Deno.listen({ hostname, port });
  const [cert, key] = [Deno.readTextFileSync(tls.chainCert), Deno.readTextFileSync(tls.key)];
  return Deno.listenTls({ hostname, port, cert, key });
}

/** The proxy's listeners and connections. */
export class ProxyServer {
  readonly #proxy: Proxy;
  readonly #backend: Backend;
  readonly #version: string;
  readonly #options: ProxyOptions;
  readonly #authenticator: Authenticator | null;
  readonly #connections = new Map<Socket, ProxyConnection>();
  readonly #served = new Set<Promise<void>>();
  readonly #acceptFailures = new AcceptFailures(report);

  constructor(
    proxy: Proxy,
    backend: Backend,
    version: string,
    options: ProxyOptions,
    authenticator: Authenticator | null,
  ) {
    this.#proxy = proxy;
    this.#backend = backend;
    this.#version = version;
    this.#options = options;
    this.#authenticator = authenticator;
  }

  /** Serves until a stop is requested, or another proxy has taken over. */
  async run(stopRequested: Promise<void>): Promise<ExitCode> {
    const { hostnames, port, tls } = this.#options;
    const listeners = hostnames.map((hostname) => listen(hostname, port, tls));
    let isStopping = false;
    const admin = this.#openAdmin(() => !isStopping && !this.#proxy.isDeposed);
    const purge = setInterval(() => this.#purgeApplied(), PURGE_INTERVAL_MS);
    const sweep = setInterval(() => this.#closeTimedOut(), SWEEP_MS);
    void watchEpoch(this.#proxy, pause, () => isStopping);
    this.#announce(listeners);
    if (admin !== null) announceMetrics(admin.listen);
    admin?.serve();
    const accepting = listeners.map((listener) => this.#accept(listener));
    await Promise.race([stopRequested, this.#proxy.deposed]);
    isStopping = true;
    const { isDeposed, deposedText } = this.#proxy;
    clearInterval(purge);
    for (const listener of listeners) listener.close();
    this.#authenticator?.stop();
    await Promise.all(accepting);
    if (isDeposed) {
      const message = `${deposedText}; this one ends`;
      logProcess("error", "deposed", message, { epoch: this.#proxy.states.epoch });
      // Clients that send a request meanwhile are told.
      await this.#untilServed(DEPOSED_MS);
    }
    await this.#drain();
    await admin?.stop();
    clearInterval(sweep);
    return isDeposed ? ExitCode.UNAVAILABLE : ExitCode.OK;
  }

  /** Opens the port of `--metrics`. @returns Null without the option. @throws ListenError */
  #openAdmin(isServing: () => boolean): AdminServer | null {
    const { metrics } = this.#options;
    if (metrics === null) return null;
    const pages = { metrics: () => proxyMetrics(this.#proxy, this.#version), isServing };
    return new AdminServer(metrics, pages, report);
  }

  async #purgeApplied(): Promise<void> {
    try {
      await this.#backend.purgeApplied(Date.now() - this.#options.appliedTtlSec * 1000);
    } catch (error) {
      const reason = reasonOf(error);
      logProcess("warning", "purge_failed", `cannot forget used tokens: ${reason}`, { reason });
    }
  }

  #announce(listeners: readonly Listener[]): void {
    const addresses = listeners.map(({ addr }) => hostPortText(addr.hostname, addr.port));
    const { states, caches } = this.#proxy;
    const names = caches.all.map(({ name }) => name);
    const database = databaseName(this.#options.database);
    const isTls = this.#options.tls !== null;
    logProcess(
      "info",
      "listening",
      `leased proxy listens on ${addresses.join(", ")}${
        isTls ? " (TLS)" : ""
      }; database ${database}, ` +
        `epoch ${states.epoch}; caches: ${names.join(", ")}`,
      { addresses, database, epoch: states.epoch, caches: names },
    );
    const open = unprotected(this.#options);
    if (open.length === 0) return;
    logProcess(
      "warning",
      "public_address",
      `no authentication: any host that can reach ${
        open.join(", ")
      } can read and change the rows; ` +
        `ask for passwords with -Y (--auth-file), restrict access with a firewall, or listen on 127.0.0.1`,
      { addresses: open, reason: "no authentication" },
    );
  }

  async #accept(listener: Listener): Promise<void> {
    for (;;) {
      let socket: Socket;
      try {
        socket = await listener.accept();
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) return;
        const code = resourceShortage(error);
        if (code !== "") this.#acceptFailures.add(code, performance.now());
        await pause(code === "" ? 1 : ACCEPT_PAUSE_MS);
        continue;
      }
      const served = this.#serve(socket).finally(() => this.#served.delete(served));
      this.#served.add(served);
    }
  }

  async #serve(socket: Socket): Promise<void> {
    if (this.#connections.size >= this.#options.connectionsMax) return await refuseSocket(socket);
    const login = this.#loginFor(socket);
    const connection = new ProxyConnection(this.#proxy, this.#version, socket, login);
    this.#connections.set(socket, connection);
    try {
      if ("setNoDelay" in socket) prepareTcp(socket);
      await connection.serve();
    } catch {
      // The peer has closed the connection.
    } finally {
      this.#connections.delete(socket);
      closeQuietly(socket);
    }
  }

  /** Returns the check of passwords for one connection; null: nobody has to authenticate. */
  #loginFor(socket: Socket): Login | null {
    const authenticator = this.#authenticator;
    if (authenticator === null) return null;
    const { hostname, port } = socket.remoteAddr;
    const address = addressOf(hostPortText(hostname, port));
    const isAwaited = (): boolean => this.#connections.has(socket);
    return (credentials) => authenticator.check({ credentials, address, isAwaited });
  }

  #closeTimedOut(): void {
    const nowMs = performance.now();
    for (const [socket, connection] of this.#connections) {
      const from = { peer: peerName(socket.remoteAddr) };
      const event = timeoutOf(connection, this.#options, nowMs, from);
      if (event === null) continue;
      closeQuietly(socket);
      report(event);
    }
  }

  /** Lets requests in progress finish, for a while. */
  async #drain(): Promise<void> {
    for (const [socket, connection] of this.#connections) {
      if (!connection.stop()) closeQuietly(socket);
    }
    await this.#untilServed(DRAIN_MS_MAX);
    for (const socket of this.#connections.keys()) closeQuietly(socket);
  }

  /** Resolves when every connection has ended, or after `ms`. */
  async #untilServed(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLate = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([Promise.all(this.#served), tooLate]);
    clearTimeout(timer);
  }
}

function report({ level, event, message, fields }: TransportEvent): void {
  logProcess(level, event, message, fields);
}

/** Closes a connection beyond the limit, with the reason if that needs no wait for the peer's handshake. */
async function refuseSocket(socket: Socket): Promise<void> {
  try {
    if (!("handshake" in socket)) await socket.write(TOO_MANY_CONNECTIONS);
  } catch {
    // The peer has closed it.
  }
  closeQuietly(socket);
}
