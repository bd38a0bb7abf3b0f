import { Tunables } from "../../protocol/tunables.ts";
import { createSharedState, type SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import { ConnectionTable } from "../../store/connections.ts";
import type { StoreOptions } from "../../store/limits.ts";
import { formatCache } from "../../store/row_cache.ts";
import { checkStore, createSharedMemory, Memory } from "../../store/setup.ts";
import { ExitCode } from "../cli/exit.ts";
import type { ServerOptions } from "../cli/options.ts";
import { configureLog, logProcess } from "../process/log.ts";
import { type BoundTransport, listenerName } from "../net/transport.ts";
import type { NodeOptions } from "../rows/nodes/options.ts";
import type { RowsOptions } from "../rows/options.ts";
import type { Snapshot } from "../snapshot/snapshot.ts";
import { byProtocol } from "./announce.ts";

/** Makes the shared memory and an empty store in it. The returned cache is for the main thread. */
export function makeStore(
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
  const shared = createSharedState(memory, options);
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
    cache.tokens.quarantineFor(options.tokenQuarantineSec);
  }
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = (index) => transport.wake(index);
  return { shared, cache };
}

/** Checks the whole store, after all threads have ended. */
export function checkAtEnd(memory: Memory): ExitCode {
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
