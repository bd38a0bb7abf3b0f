import { Tunables } from "../../protocol/tunables.ts";
import { createSharedState, type SharedState } from "../../protocol/thread_context.ts";
import { Cache } from "../../store/cache.ts";
import { checkStore } from "../../store/check/check.ts";
import { ConnectionTable } from "../../store/connections.ts";
import { CONTROL, createSharedMemory, Memory } from "../../store/memory/memory.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import { type ServerOptions, withPorts } from "../cli/options.ts";
import { Lifecycle, LifecyclePhase } from "../lifecycle.ts";
import { configureLog, logConnection, logProcess, writeStderr } from "../log.ts";
import { CounterServer } from "../counters/server.ts";
import {
  DRAIN_MS_MAX,
  type Listen,
  listenerName,
  ListenError,
  type TransportEvent,
} from "../net/transport.ts";
import { chooseTransport, type TransportName } from "../net/transports.ts";
import { announce, listenFailureText } from "./announce.ts";
import { type ThreadPlan, threadPlanFor } from "./thread_plan.ts";
import { PidFile, portFilePath, writePortFile } from "./files.ts";
import { missingPermissions } from "./permissions.ts";
import { Stop } from "./stop.ts";
import { ThreadError, Threads } from "./threads.ts";
import { Ticker } from "./ticker.ts";

/** Beyond the time threads take at most to drain. */
const DRAIN_MARGIN_MS = 1000;
/** From this verbosity on (-vvv) the store is checked at the end: a walk over all of it. */
const CHECKING_VERBOSITY = 3;

/**
 * Runs the server until it is told to stop.
 *
 * @param argv As it was started, for messages.
 * @returns The status to exit with.
 */
export async function serve(options: ServerOptions, argv: readonly string[]): Promise<ExitCode> {
  configureLog(options.logFormat, options.settings.verbosity);
  const name = chooseTransport(options.io);
  const missing = missingPermissions(options, name, argv);
  if (missing !== null) {
    for (const purpose of missing.purposes) writeStderr(`leased: not permitted to ${purpose}`);
    writeStderr(`leased: this line permits what is needed, and no more:`);
    writeStderr(`  ${missing.command}`);
    return ExitCode.NO_PERMISSION;
  }
  try {
    return await run(options, name);
  } catch (error) {
    if (error instanceof ListenError) {
      logProcess("fatal", "cannot_start", listenFailureText(error, options));
      return ExitCode.OS_ERROR;
    }
    if (error instanceof ThreadError) {
      logProcess("fatal", "cannot_start", error.message);
      return ExitCode.OS_ERROR;
    }
    if (error instanceof RangeError) return refuseUsage([error.message]);
    throw error;
  }
}

async function run(options: ServerOptions, name: TransportName): Promise<ExitCode> {
  const startMs = performance.now();
  const lifeShared = Lifecycle.createShared(options.transport.threads + 1);
  const lifecycle = new Lifecycle(lifeShared);
  const threadPlan = await threadPlanFor(name, options, lifecycle);
  const pidFile = new PidFile(options.pidFile);
  let counterServer: CounterServer | null = null;
  const cleanUp = (): void => {
    threadPlan.close();
    counterServer?.close();
    pidFile.remove();
  };
  const endAtOnce = (status: number): never => {
    cleanUp();
    Deno.exit(status);
  };
  try {
    const stop = new Stop(endAtOnce);
    // Before the first client can take the descriptors that this needs: Deno ends the process without them.
    stop.listenToSignals();
    if (options.counters !== null) {
      counterServer = new CounterServer(options.counters, options.transport, logEvent);
    }
    const threads = makeThreads(threadPlan, stop, endAtOnce);
    const { shared, cache } = makeStore(options, threadPlan);
    const started = startThreads(threads, threadPlan, options, shared, lifeShared);
    // Whoever stops it meanwhile need not wait for the start.
    await Promise.race([started, stop.requested]);
    if (stop.isRequested) return ExitCode.OK;
    counterServer?.start();
    const ticker = new Ticker(cache, startMs);
    ticker.start();
    const problems = writeFiles(pidFile, options.settings.pid, threadPlan.listens);
    announce(options, threadPlan.listens, counterServer?.listens ?? [], name);
    for (const problem of problems) logProcess("warning", "file_not_written", problem);
    await stop.requested;
    await Promise.all([drain(lifecycle, threadPlan, threads), counterServer?.stop()]);
    ticker.stop();
    return options.settings.verbosity < CHECKING_VERBOSITY ? ExitCode.OK : checkAtEnd(cache.memory);
  } finally {
    cleanUp();
  }
}

function makeThreads(
  threadPlan: ThreadPlan,
  stop: Stop,
  endAtOnce: (status: number) => never,
): Threads {
  return new Threads({
    shutdown: () => stop.request("shutdown command", ExitCode.OK),
    wake: (index) => threadPlan.wake(index),
    event: logEvent,
    died: (reason) => {
      logProcess("fatal", "thread_died", `a thread failed, stopping: ${reason}`);
      endAtOnce(ExitCode.SOFTWARE);
    },
  });
}

/** Makes the memory that the threads share, an empty store in it. The cache is the main thread's. */
function makeStore(
  options: ServerOptions,
  threadPlan: ThreadPlan,
): { shared: SharedState; cache: Cache } {
  const shared = createSharedState(createSharedMemory(options.store), options.settings);
  const tunables = new Tunables(shared.tunables);
  for (const [name, value] of options.tunables) tunables.set(name, value);
  const connections = new ConnectionTable(shared.memory.connections);
  for (const listen of threadPlan.listens) connections.addListener(listenerName(listen));
  const cache = Cache.format(new Memory(shared.memory));
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = (index) => threadPlan.wake(index);
  return { shared, cache };
}

async function startThreads(
  threads: Threads,
  threadPlan: ThreadPlan,
  options: ServerOptions,
  shared: SharedState,
  lifecycle: SharedArrayBuffer,
): Promise<void> {
  const settings = withPorts(options.settings, threadPlan.listens);
  const ready = threadPlan.members.map(({ transport, part }, threadIndex) =>
    threads.start({
      threadIndex,
      transport,
      transports: threadPlan.members.map((member) => member.transport),
      part,
      transportOptions: options.transport,
      settings,
      shared,
      lifecycle,
    })
  );
  await Promise.all(ready);
}

/** Writes what others look for in files, before anybody is told that the server runs. @returns What went wrong. */
function writeFiles(pidFile: PidFile, pid: number, listens: readonly Listen[]): string[] {
  const portFile = portFilePath();
  const problems = [
    pidFile.write(pid),
    portFile === "" ? null : writePortFile(portFile, listens),
  ];
  return problems.filter((problem) => problem !== null);
}

/** Walks the store when nobody uses it any more. */
function checkAtEnd(memory: Memory): ExitCode {
  try {
    checkStore(memory);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    logProcess("error", "store_broken", `the store is not whole: ${error.message}`);
    return ExitCode.SOFTWARE;
  }
  const items = memory.control[CONTROL.ITEM_COUNT]!;
  logProcess("info", "store_whole", `the store is whole; items: ${items}`, { items });
  return ExitCode.OK;
}

function logEvent({ level, event, message }: TransportEvent): void {
  logConnection(level, event, message);
}

/** Lets the threads answer what is under way, and waits until they have ended. */
async function drain(
  lifecycle: Lifecycle,
  threadPlan: ThreadPlan,
  threads: Threads,
): Promise<void> {
  lifecycle.phase = LifecyclePhase.DRAINING;
  threadPlan.members.forEach((_, index) => threadPlan.wake(index));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS_MAX + DRAIN_MARGIN_MS);
  });
  await Promise.race([threads.ended(), tooLate]);
  clearTimeout(timer);
}
