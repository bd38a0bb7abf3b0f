import { Tunables } from "../../protocol/tunables.ts";
import { createSharedState, type SharedState } from "../../protocol/thread_context.ts";
import { Cache } from "../../store/cache.ts";
import { checkStore, createSharedMemory, Memory } from "../../store/setup.ts";
import { ConnectionTable } from "../../store/connections.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import { type ServerOptions, withBound } from "../cli/options.ts";
import { Lifecycle, LifecyclePhase } from "../lifecycle.ts";
import { configureLog, logConnection, logProcess } from "../log.ts";
import { announceMetrics } from "../admin/announce.ts";
import type { AdminServer } from "../admin/http_server.ts";
import { Journal } from "../journal/journal.ts";
import {
  type BoundTransport,
  DRAIN_MS_MAX,
  type Listen,
  listenerName,
  type TransportEvent,
} from "../net/transport.ts";
import { bindTransport, chooseTransport, type TransportName } from "../net/transports.ts";
import { readUserFile } from "../auth/user_file.ts";
import { Authentication } from "./authentication.ts";
import { openAdmin } from "./admin.ts";
import { announce, byProtocol } from "./announce.ts";
import { refreshCertificates } from "./certificates.ts";
import { type FileProblem, PidFile, portFilePath, writePortFile } from "./files.ts";
import { missingPermissions, refusePermissions } from "./permissions.ts";
import { Stop } from "../stop.ts";
import { logStartFailure } from "./start_failure.ts";
import { type Milestone, Threads } from "./threads.ts";
import { Ticker } from "./ticker.ts";

/** Added to the time that threads have to drain. */
const DRAIN_MARGIN_MS = 1000;
/** From this verbosity on (-vvv) the server checks the whole store at exit. */
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
  const missing = missingPermissions(options, name, argv);
  if (missing !== null) return refusePermissions(missing, options.logFormat);
  try {
    return await run(options, name);
  } catch (error) {
    return logStartFailure(error, options);
  }
}

async function run(options: ServerOptions, name: TransportName): Promise<ExitCode> {
  const startMs = performance.now();
  const { authFile } = options.settings;
  const userFile = authFile === null ? null : { path: authFile, users: readUserFile(authFile) };
  const lifecycleShared = Lifecycle.createShared(options.transport.threads);
  const lifecycle = new Lifecycle(lifecycleShared);
  let bound: BoundTransport | null = null;
  const pidFile = new PidFile(options.pidFile);
  let admin = null as AdminServer | null;
  let authentication: Authentication | null = null;
  const cleanUp = (): void => {
    bound?.close();
    admin?.close();
    pidFile.remove();
  };
  const exitNow = (status: number): never => {
    cleanUp();
    Deno.exit(status);
  };
  try {
    const stop = new Stop(exitNow);
    // Before the first client: signals need descriptors, and Deno ends the process if there are none left.
    stop.handleSignals();
    const transport = bound = await bindTransport(
      name,
      [...options.listens, ...options.counters?.listens ?? []],
      options.transport,
      lifecycle,
    );
    if (options.transport.tls !== null) stop.onHangup(() => refreshCertificates(transport));
    const died = (reason: string): void => {
      logProcess("fatal", "thread_died", `a thread failed, stopping: ${reason}`, { reason });
      exitNow(ExitCode.SOFTWARE);
    };
    const { shared, cache } = makeStore(options, transport);
    if (userFile !== null) {
      const { path, users } = userFile;
      authentication = new Authentication(path, users, shared, (index) => transport.wake(index));
      stop.onHangup(() => authentication?.reload());
    }
    const threads = makeThreads(stop, authentication, died);
    const journal = await startJournal(options, transport, shared, lifecycleShared, died);
    startThreads(threads, transport, options, shared, lifecycleShared);
    const openOwn = async (): Promise<void> => {
      admin = await openAdmin(options, cache, shared, lifecycle, transport, logEvent);
    };
    if (!await openSockets(threads, lifecycle, stop, openOwn)) return ExitCode.OK;
    transport.listen();
    const [cacheListens] = byProtocol(transport.listens);
    const problems = writeFiles(pidFile, options.settings.pid, cacheListens);
    announce(options, transport);
    if (admin !== null) announceMetrics(admin.listen);
    logUnwritten(problems);
    const ticker = new Ticker(cache, startMs);
    ticker.start();
    admin?.serve();
    lifecycle.phase = LifecyclePhase.RUNNING;
    await stop.requested;
    authentication?.stop();
    await drain(lifecycle, transport, threads, options.transport.threads);
    await journal?.stop();
    await admin?.stop();
    ticker.stop();
    return options.settings.verbosity < CHECKING_VERBOSITY ? ExitCode.OK : checkAtEnd(cache.memory);
  } finally {
    cleanUp();
  }
}

/**
 * Waits until every thread can serve and listens. The sockets open in this order: UDP, metrics, TCP. Until
 * the process is RUNNING no connection has been accepted, so a signal may end it at once.
 *
 * @param openOwn Opens the sockets of the main thread.
 * @returns False if the server was stopped meanwhile.
 */
async function openSockets(
  threads: Threads,
  lifecycle: Lifecycle,
  stop: Stop,
  openOwn: () => Promise<void>,
): Promise<boolean> {
  const reach = async (milestone: Milestone): Promise<boolean> => {
    await Promise.race([threads.reach(milestone), stop.requested]);
    return !stop.isRequested;
  };
  if (!await reach("warm")) return false;
  lifecycle.phase = LifecyclePhase.OPENING;
  if (!await reach("open")) return false;
  await openOwn();
  // Last, when all else has succeeded: clients connect from here on.
  lifecycle.phase = LifecyclePhase.LISTENING;
  return await reach("listening");
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
  transport: BoundTransport,
): { shared: SharedState; cache: Cache } {
  const shared = createSharedState(createSharedMemory(options.store), options.settings);
  const tunables = new Tunables(shared.tunables);
  for (const [name, value] of options.tunables) tunables.set(name, value);
  configureLog(options.logFormat, () => tunables.get("verbosity"));
  const connections = new ConnectionTable(shared.memory.connections);
  const [listens] = byProtocol(transport.listens);
  for (const listen of listens) connections.addListener(listenerName(listen));
  const cache = Cache.format(new Memory(shared.memory));
  if (options.store.tokenPersistence === "volatile") {
    cache.tokens.quarantineFor(options.settings.tokenQuarantineSec);
  }
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = (index) => transport.wake(index);
  return { shared, cache };
}

function startThreads(
  threads: Threads,
  transport: BoundTransport,
  options: ServerOptions,
  shared: SharedState,
  lifecycle: SharedArrayBuffer,
): void {
  const settings = withBound(options.settings, transport);
  for (let threadIndex = 0; threadIndex < options.transport.threads; threadIndex++) {
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
  }
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

function logEvent({ level, event, message, fields }: TransportEvent): void {
  logConnection(level, event, message, fields);
}

/** Lets the threads finish requests in progress, and waits until they have ended. */
async function drain(
  lifecycle: Lifecycle,
  transport: BoundTransport,
  threads: Threads,
  threadCount: number,
): Promise<void> {
  lifecycle.phase = LifecyclePhase.DRAINING;
  for (let index = 0; index < threadCount; index++) transport.wake(index);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS_MAX + DRAIN_MARGIN_MS);
  });
  await Promise.race([threads.reach("ended"), tooLate]);
  clearTimeout(timer);
}
