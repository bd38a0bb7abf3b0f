import { isPublic } from "../cli/listen.ts";
import type { ServerOptions } from "../cli/options.ts";
import { sizeText } from "../cli/values.ts";
import { logProcess } from "../log.ts";
import { type Listen, type ListenError, listenText } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";

/**
 * Says that the server runs, and what whoever started it should know.
 *
 * @param counterListens Where counters are to be had; empty: nowhere.
 */
export function announce(
  options: ServerOptions,
  listens: readonly Listen[],
  counterListens: readonly Listen[],
  name: TransportName,
): void {
  announceStart(options, listens.map(listenText), counterListens.map(listenText), name);
  announceIdleOptions(options.idle);
  warnOfStrangers([...listens, ...counterListens]);
}

function announceStart(
  { settings, store, transport }: ServerOptions,
  addresses: readonly string[],
  counterAddresses: readonly string[],
  name: TransportName,
): void {
  const { version, runtime, pid } = settings;
  const { threads } = transport;
  const where = addresses.join(", ") +
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

function announceIdleOptions(idle: readonly string[]): void {
  if (idle.length === 0) return;
  const message = `accepted, and without effect here: ${idle.join(", ")}`;
  logProcess("info", "options_without_effect", message, { options: idle });
}

function warnOfStrangers(listens: readonly Listen[]): void {
  const open = listens.filter(isPublic);
  if (open.length === 0) return;
  logProcess(
    "warning",
    "public_address",
    `other machines can reach ${open.map(listenText).join(", ")}, and nobody is asked for a ` +
      `password: keep strangers out by a firewall, or listen on 127.0.0.1`,
  );
}

const CAUSES: Readonly<Record<string, string>> = {
  EADDRINUSE: "another server has this address",
  EADDRNOTAVAIL: "this machine has no such address",
  EACCES: "the operating system does not permit it",
};

/** Why an address cannot be had, and what to do about it. */
export function listenFailureText(error: ListenError, options: ServerOptions): string {
  const { listen, code, message } = error;
  const cause = CAUSES[code];
  if (cause === undefined) return message;
  const text = `cannot listen on ${listenText(listen)}: ${cause} (${code})`;
  if (code !== "EADDRINUSE" || listen.kind === "unix") return text;
  const family = listen.kind === "udp" ? "-u" : "-t";
  const isCounterPort = options.counters?.listens.some((each) => each === listen) === true;
  const flag = isCounterPort ? "--counter-port" : listen.kind === "udp" ? "-U" : "-p";
  return `${text}; \`ss ${family}lnp 'sport = :${listen.port}'\` shows which, ` +
    `${flag} chooses another port`;
}
