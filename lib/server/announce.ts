import { isPublic } from "../cli/listen.ts";
import type { ServerOptions } from "../cli/options.ts";
import { sizeText } from "../cli/values.ts";
import { logProcess } from "../process/log.ts";
import {
  type BoundTransport,
  type Listen,
  listenText,
  type TcpListen,
  tlsOf,
} from "../net/transport.ts";

/** Logs that the server is ready, and the warnings for its operator. */
export function announce(options: ServerOptions, bound: BoundTransport): void {
  const [listens, counterListens] = byProtocol(bound.listens);
  announceStart(options, bound, listens.map(addressText), counterListens.map(listenText));
  announceIgnoredOptions(options, isRoot());
  announceMissingIoUring(bound);
  warnOfPublicAddresses(listens, counterListens, options.authFile !== "");
}

/** Returns the addresses of the cache, and the addresses of the counters. */
export function byProtocol(listens: readonly Listen[]): [cache: Listen[], counters: Listen[]] {
  return [
    listens.filter(({ protocol }) => protocol !== "counters"),
    listens.filter(({ protocol }) => protocol === "counters"),
  ];
}

function announceStart(
  { version, runtime, pid, threads, memoryLimitBytes }: ServerOptions,
  { name, usesIoUring }: BoundTransport,
  addresses: readonly string[],
  counterAddresses: readonly string[],
): void {
  const where = (addresses.join(", ") || "no port (-p 0)") +
    (counterAddresses.length === 0 ? "" : `, for counters on ${counterAddresses.join(", ")}`);
  const threadPlan = threads === 1 ? "1 thread" : `${threads} threads`;
  logProcess(
    "info",
    "listening",
    `leased ${version} listens on ${where}; ${sizeText(memoryLimitBytes)} of memory, ` +
      `${threadPlan}, ${name} transport${
        usesIoUring ? " with io_uring" : ""
      }, ${runtime}, pid ${pid}`,
    {
      version,
      runtime,
      pid,
      addresses,
      counterAddresses,
      memoryBytes: memoryLimitBytes,
      threads,
      transport: name,
      ioUring: usesIoUring,
    },
  );
}

function addressText(listen: Listen): string {
  return listenText(listen) + (tlsOf(listen) === undefined ? "" : " (TLS)");
}

/**
 * Logs every option that has no effect, and why.
 *
 * @param asRoot Whether the process runs as root although `-u` is given.
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

function announceMissingIoUring({ ioUringReason: reason }: BoundTransport): void {
  if (reason === "") return;
  const effect = "serving with a system call for each read and each reply";
  logProcess("info", "no_io_uring", `io_uring is not used: ${reason}; ${effect}`, { reason });
}

/** Warns of addresses that other hosts can reach without a password, or only with one that travels in clear text. */
function warnOfPublicAddresses(
  listens: readonly Listen[],
  counterListens: readonly Listen[],
  isAuthenticated: boolean,
): void {
  const open = (isAuthenticated ? counterListens : [...listens, ...counterListens]).filter(
    isPublic,
  );
  if (open.length > 0) {
    const addresses = open.map(listenText);
    logProcess(
      "warning",
      "public_address",
      `no authentication: any host that can reach ${addresses.join(", ")} can read and change ` +
        `the cache; ask for passwords with -Y (--auth-file) and encrypt with -Z (--enable-ssl), ` +
        `restrict access with a firewall, or listen on 127.0.0.1`,
      { addresses, reason: "no authentication" },
    );
  }
  const clear = isAuthenticated
    ? listens.filter((listen) => isPublic(listen) && tlsOf(listen) === undefined).map(listenText)
    : [];
  if (clear.length === 0) return;
  logProcess(
    "warning",
    "passwords_in_clear_text",
    `no encryption: passwords and values travel in clear text to ${clear.join(", ")}; encrypt ` +
      `with -Z (--enable-ssl), or use a network that no other host can read`,
    { addresses: clear, reason: "no encryption" },
  );
}

/** Returns whether the process has the rights of root. False if no permission allows the check. */
function isRoot(): boolean {
  if (Deno.permissions.querySync({ name: "sys", kind: "uid" }).state === "granted") {
    return Deno.uid() === 0;
  }
  const mayCallC = Deno.permissions.querySync({ name: "ffi" }).state === "granted";
  if (!mayCallC || Deno.build.os !== "linux") return false;
  try {
    using libc = openLibc();
    return libc.symbols.geteuid() === 0;
  } catch {
    return false; // Not glibc.
  }
}

// deno-lint-ignore explicit-function-return-type
function openLibc() {
  const library = Deno.dlopen("libc.so.6", { geteuid: { parameters: [], result: "u32" } });
  return { symbols: library.symbols, [Symbol.dispose]: () => library.close() };
}

/** Logs where dashboard and metrics are, and a warning if other hosts can read the metrics. */
export function announceAdmin(listen: TcpListen): void {
  const address = listenText(listen);
  const dashboard = `${tlsOf(listen) === undefined ? "http" : "https"}://${address}/`;
  const url = `${dashboard}metrics`;
  const message = `metrics are at ${url}, the dashboard is at ${dashboard}`;
  logProcess("info", "metrics_listening", message, { address, url, dashboard });
  if (!isPublic(listen)) return;
  logProcess(
    "warning",
    "public_address",
    `no authentication: any host that can reach ${address} can read the statistics; restrict ` +
      `access with a firewall, or use --admin ${listen.port} to listen on 127.0.0.1 only`,
    { addresses: [address], reason: "no authentication" },
  );
}
