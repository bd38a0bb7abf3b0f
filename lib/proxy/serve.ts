import { versionText } from "../../protocol/replies.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { createAuthenticator, reloadUsers } from "../auth/logged_authenticator.ts";
import { readLoginFile, readUserFile } from "../auth/user_file.ts";
import { ExitCode } from "../cli/exit.ts";
import { configureLog, logProcess } from "../log.ts";
import { pause } from "../net/portable/sockets.ts";
import { reasonOf } from "../reason.ts";
import { handleSignals } from "../signals.ts";
import { Stop } from "../stop.ts";
import type { Backend } from "../rows/databases/backend.ts";
import type { CacheAddress } from "../rows/caches/caches_file.ts";
import { ListKeeper, readCachesFile } from "../rows/caches/list_keeper.ts";
import { type DialOptions, readCaCert } from "../rows/caches/dial.ts";
import { CacheClient } from "./cache_client.ts";
import { openBackend } from "../rows/databases/open_backend.ts";
import { databaseName } from "../rows/databases/open_backend.ts";
import { type ProxyOptions } from "./options.ts";
import { Proxy } from "./proxy.ts";
import { ProxyServer } from "./server.ts";
import { TokenStates } from "../rows/flows/token_states.ts";

/** Ended tokens kept in memory; the database remembers the used ones for longer. */
const ENDED_TOKENS_MAX = 10_000;
/** Matches the errors of PostgreSQL and SQLite about a user who may not create tables. */
const NOT_PERMITTED = /permission denied|must be owner|readonly database/;

/**
 * Runs a proxy until a signal stops it.
 *
 * @param version This program's version.
 */
export async function serveProxy(options: ProxyOptions, version: string): Promise<ExitCode> {
  configureLog(options.logFormat, () => 0);
  const stop = new Stop((status) => Deno.exit(status));
  stop.handleSignals();
  const start = new Start(options);
  try {
    const server = await Promise.race([start.run(version, stop), stop.requested]);
    return server === undefined ? ExitCode.OK : await server.run(stop.requested);
  } catch (error) {
    return error instanceof StartError
      ? refuse(error.message, error.cause, error.code)
      : refuse("cannot start", error);
  } finally {
    await start.close();
  }
}

/** Makes the tables that are missing, for a user who may create tables. Changes nothing the second time. */
export async function makeTables(options: ProxyOptions): Promise<ExitCode> {
  configureLog(options.logFormat, () => 0);
  handleSignals((_signal, statusAtExit) => Deno.exit(statusAtExit), () => {});
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

/** A part of the start failed; `cause` is the error. */
class StartError extends Error {
  override readonly name = "StartError";
  readonly code: ExitCode;

  constructor(what: string, cause: unknown, code: ExitCode = ExitCode.OS_ERROR) {
    super(what, { cause });
    this.code = code;
  }
}

/** The start of a proxy. It may be given up at any time. */
class Start {
  readonly #options: ProxyOptions;
  #addresses: readonly CacheAddress[];
  #backend: Backend | undefined;
  #caches: ListKeeper<CacheClient> | undefined;
  /** Makes these caches the list; during the start they become the first list. */
  #setCaches = (addresses: readonly CacheAddress[]): void => {
    this.#addresses = addresses;
  };

  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#addresses = options.caches;
  }

  /** @throws StartError, or the database's error. */
  async run(version: string, stop: Stop): Promise<ProxyServer> {
    const options = this.#options;
    const { cacheMode, tokensMax, valueLengthMax } = options;
    // No signal is handled between reading a file and noting what SIGHUP does.
    const { authenticator, dialOptions } = this.#readFiles(stop);
    const backend = this.#backend = await this.#openBackend();
    const caches = this.#caches = new ListKeeper(
      cacheMode,
      (hostname, port) => new CacheClient(hostname, port, dialOptions),
      ({ level, event, message, fields }) => logProcess(level, event, message, fields),
    );
    const states = new TokenStates(await backend.takeOver(), tokensMax, ENDED_TOKENS_MAX);
    await caches.adopt(backend, this.#addresses);
    const proxy = new Proxy(backend, caches.list, states, valueLengthMax, pause);
    this.#setCaches = (addresses) => caches.set(proxy, addresses);
    await caches.set(proxy, this.#addresses);
    return new ProxyServer(proxy, backend, versionText(version), options, authenticator);
  }

  /** Closes what has been opened. */
  async close(): Promise<void> {
    this.#caches?.close();
    await this.#backend?.close();
  }

  #readFiles(stop: Stop): {
    readonly authenticator: Authenticator | null;
    readonly dialOptions: DialOptions;
  } {
    const { authFile, cacheLoginFile, cacheCaCertPath, cacheTimeoutMs, cachesPath } = this.#options;
    const authenticator = authFile === ""
      ? null
      : createAuthenticator(readUserFile(authFile), authFile);
    const dialOptions = {
      timeoutMs: cacheTimeoutMs,
      login: cacheLoginFile === "" ? null : readLoginFile(cacheLoginFile),
      caCert: readCaCert(cacheCaCertPath),
    };
    if (authenticator !== null) stop.onHangup(() => reloadUsers(authenticator, authFile));
    if (cachesPath === "") return { authenticator, dialOptions };
    try {
      this.#addresses = readCachesFile(cachesPath);
    } catch (error) {
      throw new StartError("cannot use --caches", error, ExitCode.USAGE);
    }
    stop.onHangup(() => this.#reloadCaches());
    return { authenticator, dialOptions };
  }

  /** Reads the file of caches again. A file with mistakes changes nothing. */
  #reloadCaches(): void {
    let addresses: readonly CacheAddress[];
    try {
      addresses = readCachesFile(this.#options.cachesPath);
    } catch (error) {
      const reason = reasonOf(error);
      const message = `SIGHUP: the list of caches stays as it is: ${reason}`;
      logProcess("error", "caches_refused", message, { reason });
      return;
    }
    this.#setCaches(addresses);
  }

  async #openBackend(): Promise<Backend> {
    try {
      return await openBackend(this.#options);
    } catch (error) {
      const database = databaseName(this.#options.database);
      throw new StartError(`cannot use the database ${database}`, error);
    }
  }
}
