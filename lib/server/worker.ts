/// <reference lib="deno.worker" />
// The entry module of the threads that serve connections.
import process from "node:process";
import { ThreadContext } from "../../protocol/thread_context.ts";
import { clockSec } from "../../store/clock.ts";
import { CounterService } from "../counters/service.ts";
import { Lifecycle, LifecyclePhase } from "../process/lifecycle.ts";
import { cacheServices } from "../net/cache_service.ts";
import { ListenError, TlsError, type TransportEvent } from "../net/transport.ts";
import { createClock, createTransport } from "../net/transports.ts";
import type { Transport } from "../net/worker_transport.ts";
import { processState } from "./admin.ts";
import { warmUp } from "./warm_up.ts";
import { tokensDropped, type WorkerMessage, type WorkerStart } from "./messages.ts";
import { reasonOf } from "../process/reason.ts";

/** Threads that warm up before they serve. More at once would delay the start on few cores. */
const WARM_UP_THREADS_MAX = 8;
/** The portable transport opens every address on this thread. */
const COUNTER_THREAD = 0;

self.addEventListener("unhandledrejection", (event) => die(event.reason));
self.onmessage = (event: MessageEvent<WorkerStart>) => {
  run(event.data).catch(die);
};

function post(message: WorkerMessage): void {
  self.postMessage(message);
}

async function run(start: WorkerStart): Promise<void> {
  const lifecycle = new Lifecycle(start.lifecycle);
  const report = (event: TransportEvent): void => post({ kind: "event", event });
  const thread = new ThreadContext(start.shared, start.options, {
    shutdown: () => post({ kind: "shutdown" }),
    processState: () => processState(lifecycle, transport),
    refreshCertificates: () => refreshCertificates(transport),
    tokensDropped: (drop) => report(tokensDropped(drop)),
    authenticate: (owner, credentials) => post({ kind: "authenticate", owner, credentials }),
  }, start.threadIndex);
  const { mutex, rows } = thread.cache;
  mutex.nowMs = () => performance.now();
  if (rows?.right.isTimed) rows.right.nowMs = createClock(start.transport);
  post({ kind: "begun" });
  if (start.options.warmUp && start.threadIndex < WARM_UP_THREADS_MAX) {
    warmUp(start.shared, start.options);
  }
  const transport = createTransport(start.transport, {
    thread,
    services: {
      ...cacheServices(thread, start.threadIndex, report),
      counters: openCounters(start, thread, report),
    },
    threadIndex: start.threadIndex,
    options: start.options,
    lifecycle,
    workerData: start.workerData,
    report,
  });
  thread.cache.onReady = (index) => {
    if (transport.wake === undefined) lifecycle.wake(index);
    else transport.wake(index);
  };
  post({ kind: "warm" });
  try {
    await lifecycle.reaches(LifecyclePhase.OPENING);
    transport.open();
    post({ kind: "open" });
    await lifecycle.reaches(LifecyclePhase.LISTENING);
    transport.listen?.();
    post({ kind: "listening" });
  } catch (error) {
    const reason = reasonOf(error);
    if (error instanceof ListenError) {
      const { listen, code } = error;
      post({ kind: "refused", reason, socket: { listen, code } });
    } else {
      post({ kind: "refused", reason });
    }
    return;
  }
  await lifecycle.reaches(LifecyclePhase.RUNNING);
  await transport.serve();
  post({ kind: "ended" });
  if (transport.endsWithProcess !== true) self.close();
}

/** Returns the counters on the thread that serves them, null on all others. */
function openCounters(
  { options, threadIndex }: WorkerStart,
  { input, reply, work, memory }: ThreadContext,
  report: (event: TransportEvent) => void,
): CounterService | null {
  if (options.counterPort === 0 || threadIndex !== COUNTER_THREAD) return null;
  const thread = { input, reply, work, nowSec: () => clockSec(memory) };
  return new CounterService(options, thread, threadIndex, report);
}

/** Loads the certificates again. @returns "" when done, or why the previous ones stay in use. */
function refreshCertificates(transport: Transport): string {
  try {
    transport.refreshCertificates();
    return "";
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
    return error.message;
  }
}

/**
 * Ends the process at once. This thread may hold the store's mutex with the store half changed: no other thread may
 * wait for the mutex or use the store.
 */
function die(error: unknown): void {
  const text = error instanceof Error ? error.stack ?? error.message : String(error);
  Deno.stderr.writeSync(new TextEncoder().encode(`leased: a thread failed, stopping: ${text}\n`));
  process.kill(process.pid, "SIGABRT");
}
