import process from "node:process";
import type { ProcessState, SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import type { AdminServer } from "../admin/http_server.ts";
import type { ServerOptions } from "../cli/options.ts";
import { type Lifecycle, LifecyclePhase } from "../lifecycle.ts";
import type { Origin } from "../rows/origin.ts";
import type { BoundTransport, TransportEvent } from "../net/transport.ts";

/**
 * Opens the port of `--metrics`. Its modules are loaded only if the option is given.
 *
 * @param cache The main thread's.
 * @param origin Null without `--db`.
 * @param report Logs an event.
 * @returns Null without the option.
 * @throws ListenError
 */
export async function openAdmin(
  { metrics, settings }: ServerOptions,
  cache: Cache,
  shared: SharedState,
  lifecycle: Lifecycle,
  transport: BoundTransport,
  origin: Origin | null,
  report: (event: TransportEvent) => void,
): Promise<AdminServer | null> {
  if (metrics === null) return null;
  const { AdminServer } = await import("../admin/http_server.ts");
  const { adminRoutes } = await import("../admin/pages.ts");
  const { serverMetrics } = await import("../admin/server_metrics.ts");
  const routes = adminRoutes({
    metrics: serverMetrics(
      cache,
      shared,
      settings,
      () => processState(lifecycle, transport),
      () => origin?.stats ?? [],
    ),
    problem: () => origin?.problem ?? null,
    isServing: () => lifecycle.phase === LifecyclePhase.RUNNING,
  });
  return new AdminServer(metrics, routes, report);
}

/** Returns the facts of the process that `stats` and metrics show. */
export function processState(
  { accepting }: Lifecycle,
  { certificateAgeSec }: Pick<BoundTransport, "certificateAgeSec">,
): ProcessState {
  const { user, system } = process.cpuUsage();
  return { userMicroseconds: user, systemMicroseconds: system, accepting, certificateAgeSec };
}
