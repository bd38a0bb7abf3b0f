import { versionText } from "../../protocol/replies.ts";
import { addressOf, type Authenticator } from "../auth/authenticator.ts";
import { createAuthenticator, reloadUsers } from "../auth/logged_authenticator.ts";
import { readLoginFile, readUserFile } from "../auth/user_file.ts";
import { addSignal } from "../signals.ts";
import { ExitCode } from "../cli/exit.ts";
import { configureLog, logProcess } from "../log.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../net/accept_failures.ts";
import { pause, peerName, prepareTcp, resourceShortage } from "../net/portable/sockets.ts";
import { hostPortText, type TransportEvent } from "../net/transport.ts";
import type { Backend } from "./backend.ts";
import type { CacheLogin } from "./cache_client.ts";
import type { CacheAddress } from "./caches/caches_file.ts";
import { ListKeeper, readCachesFile } from "./caches/list_keeper.ts";
import { type Login, ProxyConnection } from "./connection.ts";
import { timeoutOf } from "./connection_timeouts.ts";
import { openBackend } from "./open_backend.ts";
import { databaseName, type ProxyOptions, unprotected } from "./options.ts";
import { Proxy } from "./proxy.ts";
import { REPLY } from "./replies.ts";
import { TokenStates } from "./token_states.ts";
import { reasonOf } from "../reason.ts";

/** Ended tokens kept in memory; the database remembers the used ones for longer. */
const ENDED_TOKENS_MAX = 10_000;
/** How often the database forgets old tokens. */
const PURGE_INTERVAL_MS = 60_000;
/** How often connections are closed whose time is up. */
const SWEEP_MS = 1000;
/** Time for requests in progress after a signal. */
const DRAIN_MS_MAX = 5000;
/** How long a deposed proxy refuses the requests of its connections before it closes them. */
const DEPOSED_MS = 1000;
/** Matches the errors of PostgreSQL and SQLite about a user who may not create tables. */
const NOT_PERMITTED = /permission denied|must be owner|readonly database/;
const TOO_MANY_CONNECTIONS = new TextEncoder().encode(`${REPLY.TOO_MANY_CONNECTIONS}\r\n`);
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/**
 * Runs a proxy until a signal stops it.
 *
 * @param version This program's version.
 */
export async function serveProxy(options: ProxyOptions, version: string): Promise<ExitCode> {
  configureLog(options.logFormat, () => 0);
  let authenticator: Authenticator | null;
  let cacheLogin: CacheLogin | null;
  try {
    const { authFile, cacheLoginFile } = options;
    authenticator = authFile === "" ? null : createAuthenticator(readUserFile(authFile), authFile);
    cacheLogin = cacheLoginFile === "" ? null : readLoginFile(cacheLoginFile);
  } catch (error) {
    return refuse("cannot start", error);
  }
  let addresses = options.caches;
  if (options.cachesPath !== "") {
    try {
      addresses = readCachesFile(options.cachesPath);
    } catch (error) {
      return refuse("cannot use --caches", error, ExitCode.USAGE);
    }
  }
  let backend: Backend;
  try {
    backend = await openBackend(options);
  } catch (error) {
    return refuse(`cannot use the database ${databaseName(options.database)}`, error);
  }
  const caches = new ListKeeper(options.cacheMode, options.cacheTimeoutMs, cacheLogin);
  try {
    const states = new TokenStates(await backend.takeOver(), options.tokensMax, ENDED_TOKENS_MAX);
    await caches.adopt(backend, addresses);
    const proxy = new Proxy(backend, caches.list, states, options.valueLengthMax, pause);
    await caches.set(proxy, addresses);
    const reload = (): void => reloadCaches(options.cachesPath, (list) => caches.set(proxy, list));
    const server = new ProxyServer(proxy, versionText(version), options, authenticator);
    return await server.run(backend, reload);
  } catch (error) {
    return refuse("cannot start", error);
  } finally {
    caches.close();
    await backend.close();
  }
}

/** Makes the tables that are missing, for a user who may create tables. Changes nothing the second time. */
export async function makeTables(options: ProxyOptions): Promise<ExitCode> {
  configureLog(options.logFormat, () => 0);
  const database = databaseName(options.database);
  try {
    const backend = await openBackend(options);
    await backend.close();
  } catch (error) {
    const isDenied = NOT_PERMITTED.test(reasonOf(error));
    const advice = isDenied ? "; run init as a user who may create tables" : "";
    return refuse(`cannot make the tables in ${database}${advice}`, error);
  }
  logProcess("info", "initialized", `the tables are in ${database}`, { database });
  return ExitCode.OK;
}

function refuse(what: string, error: unknown, code: ExitCode = ExitCode.OS_ERROR): ExitCode {
  const reason = reasonOf(error);
  logProcess("fatal", "cannot_start", `${what}: ${reason}`, { reason });
  return code;
}

/** Reads the file of caches again, if there is one. A file with mistakes changes nothing. */
function reloadCaches(path: string, set: (caches: readonly CacheAddress[]) => void): void {
  if (path === "") return;
  let caches: readonly CacheAddress[];
  try {
    caches = readCachesFile(path);
  } catch (error) {
    const reason = reasonOf(error);
    const message = `SIGHUP: the list of caches stays as it is: ${reason}`;
    logProcess("error", "caches_refused", message, { reason });
    return;
  }
  set(caches);
}

type Listener = Deno.TcpListener | Deno.TlsListener;
type Socket = Deno.TcpConn | Deno.TlsConn;

function listen(hostname: string, port: number, tls: ProxyOptions["tls"]): Listener {
  if (tls === null) return Deno.listen({ hostname, port });
  const [cert, key] = [Deno.readTextFileSync(tls.chainCert), Deno.readTextFileSync(tls.key)];
  return Deno.listenTls({ hostname, port, cert, key });
}

/** The proxy's listeners and connections. */
class ProxyServer {
  readonly #proxy: Proxy;
  readonly #version: string;
  readonly #options: ProxyOptions;
  readonly #authenticator: Authenticator | null;
  readonly #connections = new Map<Socket, ProxyConnection>();
  readonly #served = new Set<Promise<void>>();
  readonly #acceptFailures = new AcceptFailures(report);

  constructor(
    proxy: Proxy,
    version: string,
    options: ProxyOptions,
    authenticator: Authenticator | null,
  ) {
    this.#proxy = proxy;
    this.#version = version;
    this.#options = options;
    this.#authenticator = authenticator;
  }

  /** @param reload Reads the file of caches again. */
  async run(backend: Backend, reload: () => void): Promise<ExitCode> {
    const { hostnames, port, appliedTtlSec } = this.#options;
    const listeners = hostnames.map((hostname) => listen(hostname, port, this.#options.tls));
    const stop = Promise.withResolvers<void>();
    const onSignal = (): void => stop.resolve();
    for (const signal of SIGNALS) Deno.addSignalListener(signal, onSignal);
    addSignal("SIGHUP", () => {
      this.#reloadUsers();
      reload();
    });
    const purge = setInterval(() => {
      backend.purgeApplied(Date.now() - appliedTtlSec * 1000).catch((error) => {
        const reason = reasonOf(error);
        logProcess("warning", "purge_failed", `cannot forget used tokens: ${reason}`, { reason });
      });
    }, PURGE_INTERVAL_MS);
    const sweep = setInterval(() => this.#closeTimedOut(), SWEEP_MS);
    this.#announce(listeners);
    const accepting = listeners.map((listener) => this.#accept(listener));
    await Promise.race([stop.promise, this.#proxy.deposed]);
    const { isDeposed, deposedText } = this.#proxy;
    for (const signal of SIGNALS) Deno.removeSignalListener(signal, onSignal);
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
    clearInterval(sweep);
    return isDeposed ? ExitCode.UNAVAILABLE : ExitCode.OK;
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

  #reloadUsers(): void {
    if (this.#authenticator === null) return;
    reloadUsers(this.#authenticator, this.#options.authFile);
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

function closeQuietly(socket: Socket): void {
  try {
    socket.close();
  } catch {
    // Already closed.
  }
}
