import { isPublic } from "../cli/listen.ts";
import type { ServerOptions } from "../cli/options.ts";
import { sizeText } from "../cli/values.ts";
import { logProcess } from "../log.ts";
import { type Listen, listenText } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";
import { isRoot } from "./user.ts";

/**
 * Logs that the server is ready, and what its operator should know.
 *
 * @param counterListens Addresses of the counter protocol; empty: off.
 */
export function announce(
  options: ServerOptions,
  listens: readonly Listen[],
  counterListens: readonly Listen[],
  name: TransportName,
): void {
  announceStart(options, listens.map(listenText), counterListens.map(listenText), name);
  announceIgnoredOptions(options, isRoot());
  warnOfPublicAddresses([...listens, ...counterListens]);
}

function announceStart(
  { settings, store, transport }: ServerOptions,
  addresses: readonly string[],
  counterAddresses: readonly string[],
  name: TransportName,
): void {
  const { version, runtime, pid } = settings;
  const { threads } = transport;
  const where = (addresses.join(", ") || "no port (-p 0)") +
    (counterAddresses.length === 0 ? "" : `, for counters on ${counterAddresses.join(", ")}`);
  const threadPlan = threads === 1 ? "1 thread" : `${threads} threads`;
  logProcess(
    "info",
    "listening",
    `leased ${version} listens on ${where}; ${sizeText(store.memoryLimitBytes)} of memory, ` +
      `${threadPlan}, ${name} transport, ${runtime}, pid ${pid}`,
    {
      version,
      runtime,
      pid,
      addresses,
      counterAddresses,
      memoryBytes: store.memoryLimitBytes,
      threads,
      transport: name,
    },
  );
}

/**
 * Logs every option that has no effect, and why.
 *
 * @param asRoot Whether the process has the rights of root, which `-u` was to give up.
 */
export function announceIgnoredOptions({ ignored, user }: ServerOptions, asRoot: boolean): void {
  if (asRoot && user !== "") {
    const reason = `still running as root: -u (--user) ${user} has no effect`;
    const remedy = `start the server as that user: runuser -u ${user}, or User=${user} in systemd`;
    logProcess("warning", "running_as_root", `${reason}; ${remedy}`, { user, reason, remedy });
  }
  for (const { option, reason } of ignored) {
    if (asRoot && option === "-u (--user)") continue;
    logProcess("info", "option_ignored", `${option} has no effect: ${reason}`, { option, reason });
  }
}

function warnOfPublicAddresses(listens: readonly Listen[]): void {
  const addresses = listens.filter(isPublic).map(listenText);
  if (addresses.length === 0) return;
  logProcess(
    "warning",
    "public_address",
    `no authentication: any host that can reach ${addresses.join(", ")} can read and change ` +
      `the cache; restrict access with a firewall, or listen on 127.0.0.1`,
    { addresses, reason: "no authentication" },
  );
}
