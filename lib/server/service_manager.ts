import { logProcess } from "../log.ts";
import { notifier } from "../net/transports.ts";
import type { TransportName } from "../net/transports.ts";
import { readVariable } from "./files.ts";

/** The variable with the name of the socket to which systemd wants its messages (sd_notify(3)). */
const SOCKET_VARIABLE = "NOTIFY_SOCKET";
/** Work that goes on gets so much more time at each message; it must go on faster than that. */
const EXTENSION_US = 120_000_000;
/** Between two messages about work that goes on. */
const PAUSE_MS = 5000;

/** systemd, or another service manager that waits until the server is ready, and until it has stopped. */
export class ServiceManager {
  /** Null: nobody wants to know, or the transport cannot send. */
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

  /** The server accepts connections. */
  ready(status: string): void {
    this.#notify(`READY=1\nSTATUS=${status}`);
  }

  /** The server begins to stop. */
  stopping(): void {
    this.#notify(`STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=${EXTENSION_US}`);
  }

  /** A long work goes on: the manager must not give up. */
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
