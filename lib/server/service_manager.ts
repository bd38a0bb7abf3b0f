import { logProcess } from "../process/log.ts";
import { notifier } from "../net/transports.ts";
import type { TransportName } from "../net/transports.ts";
import { readVariable } from "./files.ts";

/** The variable with the name of the socket to which systemd wants its messages (sd_notify(3)). */
const SOCKET_VARIABLE = "NOTIFY_SOCKET";
/** Variables with the process that gets sockets, and with their number (sd_listen_fds(3)). */
const SOCKETS_PID_VARIABLE = "LISTEN_PID";
const SOCKETS_VARIABLE = "LISTEN_FDS";
const FIRST_SOCKET = 3;
/** The time that each message gives to work in progress. The next message must come before it is over. */
const EXTENSION_US = 120_000_000;
/** Between two messages about work in progress. */
const PAUSE_MS = 5000;

/** systemd, or another service manager that waits until the server is ready, and until it has stopped. */
export class ServiceManager {
  /** Null: no service manager, or a transport that cannot send. */
  readonly #send: ((text: string) => boolean) | null;
  #nextMs = 0;

  constructor(transport: TransportName) {
    const name = readVariable(SOCKET_VARIABLE);
    this.#send = name === "" ? null : notifier(transport, name);
    if (name !== "" && this.#send === null) {
      logProcess(
        "warning",
        "manager_not_notified",
        `${SOCKET_VARIABLE} is set, and the portable transport cannot send to it; use --io native, ` +
          "or Type=exec in the unit",
      );
    }
  }

  /** Returns the descriptors of sockets that the manager has bound for this process. */
  static passedSockets(transport: TransportName): number[] {
    if (readVariable(SOCKETS_PID_VARIABLE) !== `${Deno.pid}`) return [];
    const count = Number(readVariable(SOCKETS_VARIABLE));
    if (!Number.isInteger(count) || count < 1) return [];
    if (transport === "portable") {
      logProcess(
        "warning",
        "sockets_not_used",
        `${SOCKETS_VARIABLE} is set, and the portable transport cannot use sockets that are bound ` +
          "already; use --io native, or disable the socket unit",
      );
      return [];
    }
    return Array.from({ length: count }, (_, index) => FIRST_SOCKET + index);
  }

  /** Warns of sockets on which no option wants to listen. */
  static warnOfUnused(addresses: readonly string[]): void {
    for (const address of addresses) {
      logProcess(
        "warning",
        "socket_not_used",
        `${SOCKETS_VARIABLE}: the server does not listen on ${address}, and clients of that socket ` +
          "wait for ever; give -l, -p or -s the address of the socket unit",
        { address },
      );
    }
  }

  /** The server accepts connections. */
  ready(status: string): void {
    this.#notify(`READY=1\nSTATUS=${status}`);
  }

  /** The server begins to stop. */
  stopping(): void {
    this.#notify(`STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=${EXTENSION_US}`);
  }

  /** Long work is in progress: the manager must not give up. */
  goesOn(): void {
    const nowMs = performance.now();
    if (nowMs < this.#nextMs) return;
    this.#nextMs = nowMs + PAUSE_MS;
    this.#notify(`EXTEND_TIMEOUT_USEC=${EXTENSION_US}`);
  }

  #notify(text: string): void {
    if (this.#send === null || this.#send(text)) return;
    logProcess("warning", "manager_not_notified", `cannot send to ${SOCKET_VARIABLE}: ${text}`);
  }
}
