import { type SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import { type ServerOptions, withBound, withRowPrefixes } from "../cli/options.ts";
import type { NodeOptions } from "../rows/nodes/options.ts";
import type { RowsOptions } from "../rows/options.ts";
import type { DatabaseThread } from "../rows/database_thread.ts";
import { toNodeOptions, toRowsOptions, viewPrefixes } from "../rows/row_arguments.ts";
import { Lifecycle, LifecyclePhase } from "../process/lifecycle.ts";
import { configureLog, logConnection, logProcess } from "../process/log.ts";
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
import {
  bindTransport,
  chooseTransport,
  type ThreadMember,
  type TransportName,
} from "../net/transports.ts";
import { readUserFile, type Users } from "../auth/user_file.ts";
import { Authentication } from "./authentication.ts";
import { openAdmin } from "./admin.ts";
import { announce, announceAdmin, byProtocol } from "./announce.ts";
import { type FileProblem, PidFile, portFilePath, writePortFile } from "./files.ts";
import { refusedServer } from "./permissions.ts";
import { reasonOf } from "../process/reason.ts";
import { Snapshot } from "../snapshot/snapshot.ts";
import { Stop } from "../process/stop.ts";
import { RowKeeping } from "./row_keeping.ts";
import { checkAtEnd, makeStore } from "./shared_store.ts";
import { logStartFailure } from "./start_failure.ts";
import { ServiceManager } from "./service_manager.ts";
import { Threads } from "./threads.ts";
import { Ticker } from "./ticker.ts";

/** Added to the drain time of the threads. */
const DRAIN_MARGIN_MS = 1000;
/** At this verbosity (-vvv) and above the server checks the whole store at exit. */
const CHECKING_VERBOSITY = 3;

/**
 * Runs the server until a signal or a client stops it.
 *
 * @param argv The command line, for messages.
 * @returns The exit status.
 */
export async function serve(options: ServerOptions, argv: readonly string[]): Promise<ExitCode> {
  configureLog(options.logFormat, () => options.verbose);
  const name = chooseTransport(options.io);
  if (name === "portable" && options.nativeOnly.length > 0) {
    const reason = "the portable transport cannot do that; use --io native (Linux with glibc, " +
      "--allow-ffi, OpenSSL 3)";
    const errors = options.nativeOnly.map((option) => `${option}: ${reason}`);
    return refuseUsage(errors, options.logFormat);
  }
  const errors: string[] = [];
  const rows = toRows(options, errors);
  if (errors.length > 0) return refuseUsage(errors, options.logFormat);
  if (refusedServer(options, rows, name, argv)) return ExitCode.NO_PERMISSION;
  try {
    const whole = withRowPrefixes(options, viewPrefixes(options.views));
    return await run(whole, rows && { ...rows, prefixes: whole.prefixes }, name);
  } catch (error) {
    return logStartFailure(error, options);
  }
}

/** Reads the options of an origin, or of a node. @returns Null for a server without rows. */
function toRows(options: ServerOptions, errors: string[]): RowsOptions | NodeOptions | null {
  if (options.origin.length > 0) return toNodeOptions(options, errors);
  return options.db === "" ? null : toRowsOptions(options, errors);
}

async function run(
  options: ServerOptions,
  rows: RowsOptions | NodeOptions | null,
  transportName: TransportName,
): Promise<ExitCode> {
  using open = new DisposableStack();
  const stop = new Stop((status) => {
    open.dispose();
    Deno.exit(status);
  });
  const manager = new ServiceManager(transportName);
  const lifecycleShared = Lifecycle.createShared(options.threads);
  const lifecycle = new Lifecycle(lifecycleShared);
  const server = await start(
    { options, rows, transportName, stop, open, manager, lifecycleShared, lifecycle },
  );
  if (server === null) return ExitCode.OK;
  await stop.requested;
  await shutDown(server);
  return options.verbose < CHECKING_VERBOSITY ? ExitCode.OK : checkAtEnd(server.cache.memory);
}

/** The process, as the steps of its start see it. */
interface Process {
  readonly options: ServerOptions;
  readonly rows: RowsOptions | NodeOptions | null;
  readonly transportName: TransportName;
  readonly stop: Stop;
  /** Receives every resource to close when the process ends, also if the start fails. */
  readonly open: DisposableStack;
  readonly manager: ServiceManager;
  /** Memory of `lifecycle`, for other threads. */
  readonly lifecycleShared: SharedArrayBuffer;
  readonly lifecycle: Lifecycle;
}

/** Ends the process at once because a thread has failed. */
function died({ stop }: Process, reason: string): void {
  logProcess("fatal", "thread_died", `a thread failed, stopping: ${reason}`, { reason });
  stop.exitNow(ExitCode.SOFTWARE);
}

/**
 * Starts a server. The sockets open in this order: UDP, metrics, TCP. Until the process is RUNNING no
 * connection has been accepted, so a signal may end it at once.
 *
 * @returns Null if the server was stopped during the start.
 */
async function start(process: Process): Promise<Server | null> {
  const startMs = performance.now();
  const bound = await bind(process);
  const filled = await fill(process, bound);
  return filled && await admit(process, bound, filled, startMs);
}

/** The parts of a server that come before its store. */
interface Bound {
  readonly pidFile: PidFile;
  /** Null without `-Y`. */
  readonly users: Users | null;
  readonly transport: BoundTransport;
  /** Null without `--snapshot`. */
  readonly snapshot: Snapshot | null;
}

/** Binds the sockets; nothing listens yet. */
async function bind(process: Process): Promise<Bound> {
  const { options, transportName, stop, open, manager, lifecycle } = process;
  const { authFile } = options;
  const users = authFile === "" ? null : readUserFile(authFile);
  // Before the first client: signals need descriptors, and Deno ends the process if there are none left.
  stop.handleSignals();
  const pidFile = open.adopt(new PidFile(options.pidfile), (file) => file.remove());
  const listens = [...options.listens, ...options.counterListens];
  const passed = ServiceManager.passedSockets(transportName);
  const transport = open.adopt(
    await bindTransport(transportName, listens, options, lifecycle, passed),
    (bound) => bound.close(),
  );
  ServiceManager.warnOfUnused(transport.unusedSockets ?? []);
  if (options.tls !== null) stop.onHangup(() => refreshCertificates(transport));
  const snapshot = open.adopt(
    options.snapshotPath === "" ? null : new Snapshot(options, () => manager.goesOn()),
    (file) => file?.close(),
  );
  return { pidFile, users, transport, snapshot };
}

/** The parts of a server that make, fill or use its store. */
interface Filled {
  readonly shared: SharedState;
  /** For the main thread. */
  readonly cache: Cache;
  /** Null without `-Y`. */
  readonly authentication: Authentication | null;
  readonly threads: Threads;
  readonly keeping: RowKeeping;
  /** Null without `--state-dir`. */
  readonly journal: Journal | null;
  /** Null without `--db` and `--origin`. */
  readonly origin: DatabaseThread | null;
}

/** Starts the threads and fills the store. @returns Null if the server was stopped. */
async function fill(process: Process, bound: Bound): Promise<Filled | null> {
  const { options, rows, stop, lifecycle } = process;
  const { transport, snapshot } = bound;
  const { shared, cache } = makeStore(options, rows, transport, snapshot);
  const authentication = authenticate(process, bound, shared);
  const threads = makeThreads(process, bound, shared, authentication);
  await threads.startFirst(stop);
  // While the threads warm up. They do not use the store yet.
  const keeping = new RowKeeping(rows, snapshot);
  await Promise.race([snapshot?.load(cache, keeping.removedAtStart), stop.requested]);
  if (stop.isRequested) return null;
  // After the items: the keys of update tokens lose theirs.
  const journal = await startJournal(process, bound, shared);
  if (!await threads.reachOrStop("warm", stop)) return null;
  lifecycle.phase = LifecyclePhase.OPENING;
  if (!await threads.reachOrStop("open", stop)) return null;
  // After the ports are bound: a second server on a port in use must not take the database over.
  const origin = rows && await Promise.race([
    startOrigin(process, rows, bound, shared, keeping),
    stop.requested.then(() => null),
  ]);
  if (stop.isRequested) return null;
  return { shared, cache, authentication, threads, keeping, journal, origin };
}

/** A server that accepts connections. */
interface Server extends Process, Bound, Filled {
  readonly ticker: Ticker;
  /** Null without `--admin`. */
  readonly admin: AdminServer | null;
}

/** Lets clients connect, after every other step of the start. @returns Null if the server was stopped. */
async function admit(
  process: Process,
  bound: Bound,
  filled: Filled,
  startMs: number,
): Promise<Server | null> {
  const { options, stop, open, manager, lifecycle } = process;
  const { pidFile, transport, snapshot } = bound;
  const { cache, threads } = filled;
  const admin = open.adopt(
    await openAdmin(options, { ...filled, lifecycle, transport }, logEvent),
    (server) => server?.close(),
  );
  lifecycle.phase = LifecyclePhase.LISTENING;
  if (!await threads.reachOrStop("listening", stop)) return null;
  snapshot?.retire();
  transport.listen();
  const [cacheListens] = byProtocol(transport.listens);
  const problems = writeFiles(pidFile, options.pid, cacheListens);
  announce(options, transport);
  if (admin !== null) announceAdmin(admin.listen);
  logUnwritten(problems);
  const ticker = new Ticker(cache, startMs - (snapshot?.clockMs ?? 0));
  ticker.start();
  admin?.serve();
  lifecycle.phase = LifecyclePhase.RUNNING;
  manager.ready(`serving, ${options.threads} threads`);
  threads.startRest(stop).catch((error) => died(process, reasonOf(error)));
  return { ...process, ...bound, ...filled, ticker, admin };
}

/** @returns Null without `-Y`. */
function authenticate(
  { options: { authFile }, stop }: Process,
  { users, transport }: Bound,
  shared: SharedState,
): Authentication | null {
  if (users === null) return null;
  const authentication = new Authentication(authFile, users, shared, transport);
  stop.onHangup(() => authentication.reload());
  return authentication;
}

function makeThreads(
  process: Process,
  { transport }: Bound,
  shared: SharedState,
  authentication: Authentication | null,
): Threads {
  const { options, stop, lifecycleShared } = process;
  const boundOptions = withBound(options, transport);
  return new Threads(
    options.threads,
    (threadIndex) => ({
      threadIndex,
      transport: transport.name,
      workerData: transport.workerData(threadIndex),
      options: boundOptions,
      shared,
      lifecycle: lifecycleShared,
    }),
    {
      authenticate: (owner, credentials) => {
        authentication?.check(owner, credentials);
      },
      shutdown: () => stop.request("shutdown command", ExitCode.OK),
      event: logEvent,
      died: (reason) => died(process, reason),
    },
  );
}

/** Finishes requests in progress, then ends the threads, and writes the snapshot. */
async function shutDown(server: Server): Promise<void> {
  const { options, cache, snapshot, keeping } = server;
  server.manager.stopping();
  server.authentication?.stop();
  const hasEnded = await drain(server);
  const mark = await server.origin?.stop() ?? "";
  // Maintenance changes pages that the snapshot has, or is about to have.
  server.ticker.stop();
  if (hasEnded) {
    await snapshot?.save(cache, options.version, keeping.saved(mark), keeping.removedAtEnd(mark));
  } else snapshot?.reportUnfinished();
  await server.journal?.stop();
  await server.admin?.stop();
}

/** Starts the journal's thread. @returns Null without `--state-dir`. @throws StateError */
async function startJournal(
  process: Process,
  bound: Bound,
  { memory }: SharedState,
): Promise<Journal | null> {
  const { options: { stateDir, tokenRecover }, lifecycleShared } = process;
  if (stateDir === "") return null;
  const start = {
    stateDir,
    tokenRecover,
    shared: memory,
    lifecycle: lifecycleShared,
    member: memberOf(bound),
  };
  return await Journal.start(start, { event: logEvent, died: (reason) => died(process, reason) });
}

/** The part of the transport with which a thread of the process wakes the serving threads. */
function memberOf({ transport }: Bound): ThreadMember {
  return { transport: transport.name, workerData: transport.workerData(0) };
}

/** Starts the database thread, which takes the database over. @throws DatabaseThreadError */
async function startOrigin(
  process: Process,
  rows: RowsOptions | NodeOptions,
  bound: Bound,
  { memory }: SharedState,
  { savedMark, savesRows }: RowKeeping,
): Promise<DatabaseThread> {
  const { DatabaseThread } = await import("../rows/database_thread.ts");
  const { stop, lifecycleShared } = process;
  const start = {
    options: named(rows, bound),
    shared: memory,
    lifecycle: lifecycleShared,
    member: memberOf(bound),
    savedMark,
    savesRows,
  };
  const origin = await DatabaseThread.start(start, {
    event: ({ level, event, message, fields }) => logProcess(level, event, message, fields),
    deposed: (reason) => {
      const message = `${reason}; stopping: this server must answer no row any more`;
      logProcess("fatal", "deposed", message, { reason });
      stop.exitNow(ExitCode.UNAVAILABLE);
    },
    died: (reason) => died(process, reason),
  });
  if ("database" in rows && rows.views !== "") {
    stop.onHangup(() => origin.reloadFiles());
  }
  return origin;
}

/** Names a node without a name by its first listener. Only a bound transport knows the port of one on port 0. */
function named(
  rows: RowsOptions | NodeOptions,
  { transport }: Bound,
): RowsOptions | NodeOptions {
  const [[first]] = byProtocol(transport.listens);
  return "origins" in rows && rows.nodeName === "" && first !== undefined
    ? { ...rows, nodeName: listenerName(first) }
    : rows;
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
async function drain({ options, lifecycle, transport, threads }: Server): Promise<boolean> {
  lifecycle.phase = LifecyclePhase.DRAINING;
  for (let index = 0; index < options.threads; index++) transport.wake(index);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), DRAIN_MS_MAX + DRAIN_MARGIN_MS);
  });
  const hasEnded = await Promise.race([threads.reach("ended").then(() => true), tooLate]);
  clearTimeout(timer);
  return hasEnded;
}
