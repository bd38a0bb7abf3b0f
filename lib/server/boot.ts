import { Tunables } from "../../protocol/tunables.ts";
import { createSharedState, type SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import { formatCache } from "../../store/row_cache.ts";
import { checkStore, createSharedMemory, Memory } from "../../store/setup.ts";
import type { StoreOptions } from "../../store/limits.ts";
import { ConnectionTable } from "../../store/connections.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import { type RowArguments, type ServerOptions, withBound } from "../cli/options.ts";
import type { NodeOptions } from "../rows/nodes/options.ts";
import type { RowsOptions } from "../rows/options.ts";
import type { Origin } from "../rows/origin.ts";
import { toNodeOptions, toRowsOptions } from "../rows/row_arguments.ts";
import { Lifecycle, LifecyclePhase } from "../lifecycle.ts";
import { configureLog, logConnection, logProcess } from "../log.ts";
import type { AdminServer } from "../admin/http_server.ts";
import { Journal } from "../journal/journal.ts";
import {
  type BoundTransport,
  DRAIN_MS_MAX,
  type Listen,
  listenerName,
  TlsError,
  type TransportEvent,
} from "../net/transport.ts";
import { bindTransport, chooseTransport, type TransportName } from "../net/transports.ts";
import { readUserFile } from "../auth/user_file.ts";
import { Authentication } from "./authentication.ts";
import { openAdmin } from "./admin.ts";
import { announce, announceAdmin, byProtocol } from "./announce.ts";
import { type FileProblem, PidFile, portFilePath, writePortFile } from "./files.ts";
import { refusedServer } from "./permissions.ts";
import { reasonOf } from "../reason.ts";
import { Snapshot } from "../snapshot/snapshot.ts";
import { Stop } from "../stop.ts";
import { RowKeeping } from "./row_keeping.ts";
import { logStartFailure } from "./start_failure.ts";
import { ServiceManager } from "./service_manager.ts";
import { type Milestone, Threads } from "./threads.ts";
import { Ticker } from "./ticker.ts";

/** Added to the drain time of the threads. */
const DRAIN_MARGIN_MS = 1000;
/** More threads than this, and than so many for each processor, cause a warning. */
const THREADS_UNWARNED = 8;
const THREADS_PER_PROCESSOR = 4;
/** The server listens when so many threads, and one for each processor, are ready. The others join one by one. */
const THREADS_FIRST = 4;
/** At this verbosity (-vvv) and above the server checks the whole store at exit. */
const CHECKING_VERBOSITY = 3;

/**
 * Runs the server until a signal or a client stops it.
 *
 * @param argv The command line, for messages.
 * @returns The exit status.
 */
export async function serve(options: ServerOptions, argv: readonly string[]): Promise<ExitCode> {
  configureLog(options.logFormat, () => options.settings.verbosity);
  const name = chooseTransport(options.io);
  if (name === "portable" && options.nativeOnly.length > 0) {
    const reason = "the portable transport cannot do that; use --io native (Linux with glibc, " +
      "--allow-ffi, OpenSSL 3)";
    const errors = options.nativeOnly.map((option) => `${option}: ${reason}`);
    return refuseUsage(errors, options.logFormat);
  }
  const errors: string[] = [];
  const rows = options.rows && toRows(options.rows, errors);
  if (errors.length > 0) return refuseUsage(errors, options.logFormat);
  if (refusedServer(options, rows, name, argv)) return ExitCode.NO_PERMISSION;
  try {
    return await run(options, rows, name);
  } catch (error) {
    return logStartFailure(error, options);
  }
}

/** Reads the options of an origin, or of a node. */
function toRows(
  rows: RowArguments,
  errors: string[],
): RowsOptions | NodeOptions {
  return rows.values.origin.length === 0
    ? toRowsOptions(rows, errors)
    : toNodeOptions(rows, errors);
}

async function run(
  options: ServerOptions,
  rows: RowsOptions | NodeOptions | null,
  name: TransportName,
): Promise<ExitCode> {
  using open = new DisposableStack();
  const stop = new Stop((status) => {
    open.dispose();
    Deno.exit(status);
  });
  const server = await start(options, rows, name, stop, open);
  if (server === null) return ExitCode.OK;
  await stop.requested;
  await shutDown(server, options);
  return options.settings.verbosity < CHECKING_VERBOSITY
    ? ExitCode.OK
    : checkAtEnd(server.cache.memory);
}

/** A server that accepts connections. */
interface Server {
  readonly lifecycle: Lifecycle;
  readonly transport: BoundTransport;
  readonly threads: Threads;
  /** For the main thread. */
  readonly cache: Cache;
  readonly ticker: Ticker;
  /** Null without `-Y`. */
  readonly authentication: Authentication | null;
  /** Null without `--state-dir`. */
  readonly journal: Journal | null;
  readonly manager: ServiceManager;
  /** Null without `--snapshot`. */
  readonly snapshot: Snapshot | null;
  readonly keeping: RowKeeping;
  /** Null without `--db`. */
  readonly origin: Origin | null;
  /** Null without `--admin`. */
  readonly admin: AdminServer | null;
}

/**
 * Starts a server. The sockets open in this order: UDP, metrics, TCP. Until the process is RUNNING no
 * connection has been accepted, so a signal may end it at once.
 *
 * @param open Receives every resource to close when the process ends, also if the start fails.
 * @returns Null if the server was stopped during the start.
 */
async function start(
  options: ServerOptions,
  rows: RowsOptions | NodeOptions | null,
  name: TransportName,
  stop: Stop,
  open: DisposableStack,
): Promise<Server | null> {
  const startMs = performance.now();
  const { authFile, pid } = options.settings;
  const manager = new ServiceManager(name);
  const users = authFile === null ? null : readUserFile(authFile);
  // Before the first client: signals need descriptors, and Deno ends the process if there are none left.
  stop.handleSignals();
  const pidFile = open.adopt(new PidFile(options.pidFile), (file) => file.remove());
  const lifecycleShared = Lifecycle.createShared(options.transport.threads);
  const lifecycle = new Lifecycle(lifecycleShared);
  const listens = [...options.listens, ...options.counters?.listens ?? []];
  const transport = open.adopt(
    await bindTransport(
      name,
      listens,
      options.transport,
      lifecycle,
      ServiceManager.passedSockets(name),
    ),
    (bound) => bound.close(),
  );
  ServiceManager.warnOfUnused(transport.unusedSockets ?? []);
  if (options.transport.tls !== null) stop.onHangup(() => refreshCertificates(transport));
  const snapshot = open.adopt(
    options.snapshot && new Snapshot(options.snapshot, () => manager.goesOn()),
    (file) => file?.close(),
  );
  const { shared, cache } = makeStore(options, rows, transport, snapshot);
  const authentication = users && new Authentication(authFile!, users, shared, transport);
  if (authentication !== null) stop.onHangup(() => authentication.reload());
  const died = (reason: string): void => {
    logProcess("fatal", "thread_died", `a thread failed, stopping: ${reason}`, { reason });
    stop.exitNow(ExitCode.SOFTWARE);
  };
  const threads = makeThreads(stop, authentication, died);
  const threadCount = options.transport.threads;
  warnOfThreads(threadCount);
  const startThread = threadStarter(threads, transport, options, shared, lifecycleShared);
  const firstCount = Math.min(threadCount, Math.max(THREADS_FIRST, navigator.hardwareConcurrency));
  for (let index = 0; index < firstCount; index++) await startThread(index, stop);
  // While the threads warm up. They do not use the store yet.
  const keeping = new RowKeeping(rows, snapshot);
  await Promise.race([snapshot?.load(cache, keeping.removedAtStart), stop.requested]);
  if (stop.isRequested) return null;
  // After the items: the keys of update tokens lose theirs.
  const journal = await startJournal(options, transport, shared, lifecycleShared, died);
  if (!await reach("warm", threads, stop)) return null;
  lifecycle.phase = LifecyclePhase.OPENING;
  if (!await reach("open", threads, stop)) return null;
  // After the ports are bound: a second server on a port in use must not take the database over.
  const origin = rows && await Promise.race([
    startOrigin(rows, keeping, transport, shared, lifecycleShared, stop, died),
    stop.requested.then(() => null),
  ]);
  if (stop.isRequested) return null;
  const admin = open.adopt(
    await openAdmin(
      options,
      { cache, shared, lifecycle, transport, origin, authentication },
      logEvent,
    ),
    (server) => server?.close(),
  );
  // Last, after every other step of the start: clients can connect now.
  lifecycle.phase = LifecyclePhase.LISTENING;
  if (!await reach("listening", threads, stop)) return null;
  snapshot?.retire();
  transport.listen();
  const [cacheListens] = byProtocol(transport.listens);
  const problems = writeFiles(pidFile, pid, cacheListens);
  announce(options, transport);
  if (admin !== null) announceAdmin(admin.listen);
  logUnwritten(problems);
  const ticker = new Ticker(cache, startMs - (snapshot?.clockMs ?? 0));
  ticker.start();
  admin?.serve();
  lifecycle.phase = LifecyclePhase.RUNNING;
  manager.ready(`serving, ${threadCount} threads`);
  joinThreads(firstCount, threadCount, threads, startThread, stop).catch((error) =>
    died(reasonOf(error))
  );
  return {
    lifecycle,
    transport,
    threads,
    cache,
    ticker,
    authentication,
    journal,
    snapshot,
    keeping,
    manager,
    origin,
    admin,
  };
}

/** Waits until every thread has reached a milestone. @returns False if the server was stopped before. */
async function reach(milestone: Milestone, threads: Threads, stop: Stop): Promise<boolean> {
  await Promise.race([threads.reach(milestone), stop.requested]);
  return !stop.isRequested;
}

/** Finishes requests in progress, then ends the threads, and writes the snapshot. */
async function shutDown(server: Server, options: ServerOptions): Promise<void> {
  server.manager.stopping();
  server.authentication?.stop();
  const hasEnded = await drain(server, options.transport.threads);
  const mark = await server.origin?.stop() ?? "";
  const { version } = options.settings;
  const { keeping } = server;
  if (hasEnded) {
    await server.snapshot?.save(
      server.cache,
      version,
      keeping.saved(mark),
      keeping.removedAtEnd(mark),
    );
  } else server.snapshot?.reportUnfinished();
  await server.journal?.stop();
  await server.admin?.stop();
  server.ticker.stop();
}

/** Starts the journal's thread. @returns Null without `--state-dir`. @throws StateError */
async function startJournal(
  { journal }: ServerOptions,
  transport: BoundTransport,
  { memory }: SharedState,
  lifecycle: SharedArrayBuffer,
  died: (reason: string) => void,
): Promise<Journal | null> {
  if (journal === null) return null;
  const member = { transport: transport.name, workerData: transport.workerData(0) };
  const start = { ...journal, shared: memory, lifecycle, member };
  return await Journal.start(start, { event: logEvent, died });
}

/** Starts the database thread, which takes the database over. @throws OriginError */
async function startOrigin(
  options: RowsOptions | NodeOptions,
  keeping: RowKeeping,
  transport: BoundTransport,
  { memory }: SharedState,
  lifecycle: SharedArrayBuffer,
  stop: Stop,
  died: (reason: string) => void,
): Promise<Origin> {
  const { Origin } = await import("../rows/origin.ts");
  const member = { transport: transport.name, workerData: transport.workerData(0) };
  const deposed = (reason: string): void => {
    logProcess("fatal", "deposed", `${reason}; stopping: this server must answer no row any more`, {
      reason,
    });
    stop.exitNow(ExitCode.UNAVAILABLE);
  };
  const { savedMark, savesRows } = keeping;
  // Only a bound transport knows the port of a listener on port 0.
  const [[first]] = byProtocol(transport.listens);
  const own = "origins" in options && options.name === "" && first !== undefined
    ? { ...options, name: listenerName(first) }
    : options;
  const start = { options: own, shared: memory, lifecycle, member, savedMark, savesRows };
  const origin = await Origin.start(start, {
    event: ({ level, event, message, fields }) => logProcess(level, event, message, fields),
    deposed,
    died,
  });
  if ("cachesPath" in options && (options.cachesPath !== "" || options.viewsPath !== "")) {
    stop.onHangup(() => origin.reloadFiles());
  }
  return origin;
}

function makeThreads(
  stop: Stop,
  authentication: Authentication | null,
  died: (reason: string) => void,
): Threads {
  return new Threads({
    authenticate: (owner, credentials) => {
      authentication?.check(owner, credentials);
    },
    shutdown: () => stop.request("shutdown command", ExitCode.OK),
    event: logEvent,
    died,
  });
}

/** Makes the shared memory and an empty store in it. The returned cache is for the main thread. */
function makeStore(
  options: ServerOptions,
  rows: RowsOptions | NodeOptions | null,
  transport: BoundTransport,
  snapshot: Snapshot | null,
): { shared: SharedState; cache: Cache } {
  const { store } = options;
  const wanted: StoreOptions = {
    ...store,
    rows: store.rows && { ...store.rows, rightFrom: rows?.rightFrom },
  };
  const memory = createSharedMemory(snapshot?.storeOptions(wanted) ?? wanted);
  const shared = createSharedState(memory, options.settings);
  const tunables = new Tunables(shared.tunables);
  for (const [name, value] of options.tunables) tunables.set(name, value);
  configureLog(options.logFormat, () => tunables.get("verbosity"));
  const connections = new ConnectionTable(shared.memory.connections);
  const [listens] = byProtocol(transport.listens);
  for (const listen of listens) connections.addListener(listenerName(listen));
  const cache = formatCache(new Memory(shared.memory));
  // Before anything has a deadline.
  if (snapshot !== null) cache.snapshots.resumeClock(snapshot.clockMs);
  if (options.store.tokenPersistence === "volatile") {
    cache.tokens.quarantineFor(options.settings.tokenQuarantineSec);
  }
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = (index) => transport.wake(index);
  return { shared, cache };
}

/** Warns if there are far more threads than processors. */
function warnOfThreads(threads: number): void {
  const processors = navigator.hardwareConcurrency;
  if (threads <= Math.max(THREADS_UNWARNED, THREADS_PER_PROCESSOR * processors)) return;
  logProcess(
    "warning",
    "many_threads",
    `-t ${threads}: ${processors} processors; each thread takes about 25 MB and a quarter of a ` +
      "second of a processor at the start; use as many threads as processors",
    { threads, processors },
  );
}

/**
 * Returns a function that starts a thread, unless the server is stopped. A thread's creation blocks: signals are
 * handled before.
 */
function threadStarter(
  threads: Threads,
  transport: BoundTransport,
  options: ServerOptions,
  shared: SharedState,
  lifecycle: SharedArrayBuffer,
): (threadIndex: number, stop: Stop) => Promise<void> {
  const settings = withBound(options.settings, transport);
  return async (threadIndex, stop) => {
    await new Promise((resolve) => setTimeout(resolve));
    if (stop.isRequested) return;
    threads.start({
      threadIndex,
      transport: transport.name,
      workerData: transport.workerData(threadIndex),
      transportOptions: options.transport,
      counters: options.counters,
      settings,
      shared,
      lifecycle,
    });
  };
}

/** Starts the threads from `first` on while others serve, one at a time: they take the processors from each other. */
async function joinThreads(
  first: number,
  count: number,
  threads: Threads,
  startThread: (threadIndex: number, stop: Stop) => Promise<void>,
  stop: Stop,
): Promise<void> {
  if (first === count) return;
  for (let index = first; index < count; index++) {
    await startThread(index, stop);
    if (!await reach("listening", threads, stop)) return;
  }
  logProcess("info", "threads_serve", `all ${count} threads serve`, { threads: count });
}

/** Writes the pid file and the port file, before the log says that the server listens. @returns The failures. */
function writeFiles(pidFile: PidFile, pid: number, listens: readonly Listen[]): FileProblem[] {
  const portFile = portFilePath();
  const problems = [
    pidFile.write(pid),
    portFile === "" ? null : writePortFile(portFile, listens),
  ];
  return problems.filter((problem) => problem !== null);
}

function logUnwritten(problems: readonly FileProblem[]): void {
  for (const { message, ...fields } of problems) {
    logProcess("warning", "file_not_written", message, fields);
  }
}

/** Checks the whole store, after all threads have ended. */
function checkAtEnd(memory: Memory): ExitCode {
  let items = 0;
  try {
    items = checkStore(memory);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const reason = error.message;
    logProcess("error", "store_check_failed", `store check failed: ${reason}`, { reason });
    return ExitCode.SOFTWARE;
  }
  logProcess("info", "store_check_passed", `store check passed; items: ${items}`, { items });
  return ExitCode.OK;
}

/** Loads the certificates again. After an error the previous ones stay in use. */
function refreshCertificates(transport: BoundTransport): void {
  try {
    transport.refreshCertificates();
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
    const reason = error.message;
    const message = `certificates not loaded, the previous ones stay in use: ${reason}`;
    return logProcess("warning", "certificates_not_refreshed", message, { reason });
  }
  logProcess("info", "certificates_refreshed", "certificates loaded for new connections");
}

function logEvent({ level, event, message, fields }: TransportEvent): void {
  logConnection(level, event, message, fields);
}

/** Lets the threads finish requests in progress. @returns Whether they have ended in time. */
async function drain(
  { lifecycle, transport, threads }: Server,
  threadCount: number,
): Promise<boolean> {
  lifecycle.phase = LifecyclePhase.DRAINING;
  for (let index = 0; index < threadCount; index++) transport.wake(index);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), DRAIN_MS_MAX + DRAIN_MARGIN_MS);
  });
  const hasEnded = await Promise.race([threads.reach("ended").then(() => true), tooLate]);
  clearTimeout(timer);
  return hasEnded;
}
