import process from "node:process";
import type { ProcessState, SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import type { AdminServer } from "../admin/http_server.ts";
import type { ServerOptions } from "../cli/options.ts";
import { type Lifecycle, LifecyclePhase } from "../process/lifecycle.ts";
import type { DatabaseThread } from "../rows/database_thread.ts";
import type { BoundTransport, TransportEvent } from "../net/transport.ts";
import { logProcess } from "../process/log.ts";
import { tokensDropped } from "./messages.ts";
import type { Authentication } from "./authentication.ts";

/** Parts of the server that the admin port shows. */
interface Shown {
  /** The main thread's. */
  readonly cache: Cache;
  readonly shared: SharedState;
  readonly lifecycle: Lifecycle;
  readonly transport: BoundTransport;
  /** Null without `--db`. */
  readonly origin: DatabaseThread | null;
  /** Null without `-Y`. */
  readonly authentication: Authentication | null;
}

/**
 * Opens the port of `--admin`. Its modules are loaded only if the option is given.
 *
 * @param report Logs an event.
 * @returns Null without the option.
 * @throws ListenError
 * @throws TlsError
 */
export async function openAdmin(
  options: ServerOptions,
  { cache, shared, lifecycle, transport, origin, authentication }: Shown,
  report: (event: TransportEvent) => void,
): Promise<AdminServer | null> {
  const { admin, tls } = options;
  if (admin === null) return null;
  const { AdminServer } = await import("../admin/http_server.ts");
  const { adminRoutes } = await import("../admin/pages.ts");
  const { serverMetrics, statSource } = await import("../admin/server_metrics.ts");
  const { dashboardRoutes } = await import("../admin/dashboard/routes.ts");
  const { Recorder } = await import("../admin/dashboard/recorder.ts");
  const { takeSnapshot } = await import("../admin/dashboard/series.ts");
  const rowStats = () => origin?.stats ?? [];
  const isServing = () => lifecycle.phase === LifecyclePhase.RUNNING;
  const source = statSource(cache, shared, options, () => processState(lifecycle, transport));
  const recorder = new Recorder((atMs) => takeSnapshot(source, rowStats(), atMs));
  const routes = adminRoutes({
    metrics: serverMetrics(source, rowStats),
    problem: () => origin?.problem ?? null,
    isServing,
    routes: dashboardRoutes({
      recorder,
      tables: {
        ...source,
        rowStats,
        nodes: () => origin?.nodes ?? [],
        rowTokens: () => origin?.tokens ?? [],
        users: () => authentication?.users ?? null,
      },
      check: authentication &&
        ((credentials, address) => authentication.accessOf(credentials, address)),
      actions: options.adminActions
        ? {
          cache,
          settings: options,
          isServing,
          done: (event, message, by) => logProcess("warning", event, message, { by }),
          tokensDropped: (drop) => report(tokensDropped(drop)),
        }
        : null,
    }),
  });
  const adminTls = admin.tls === undefined
    ? null
    : new (await import("../admin/tls.ts")).AdminTls(tls!, admin.tls, transport);
  const server = new AdminServer(admin, routes, report, undefined, adminTls);
  recorder.start();
  server.onClose = () => recorder.stop();
  return server;
}

/** Returns the facts of the process that `stats` and metrics show. */
export function processState(
  { accepting }: Lifecycle,
  { certificateAgeSec }: Pick<BoundTransport, "certificateAgeSec">,
): ProcessState {
  const { user, system } = process.cpuUsage();
  return { userMicroseconds: user, systemMicroseconds: system, accepting, certificateAgeSec };
}
