import type { Credentials } from "../../protocol/auth/password_checks.ts";
import type { SharedState, TokenDrop } from "../../protocol/thread_context.ts";
import { oneWord, printable } from "../../store/base/key_text.ts";
import type { ConnectionId } from "../../store/connections.ts";
import type { ServerOptions } from "../cli/options.ts";
import type { Listen, TransportEvent } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";

/** The first message to a worker. */
export interface WorkerStart {
  readonly threadIndex: number;
  readonly transport: TransportName;
  /** Data of the bound transport for this worker. */
  readonly workerData: unknown;
  /** With the ports that were bound. */
  readonly options: ServerOptions;
  readonly shared: SharedState;
  readonly lifecycle: SharedArrayBuffer;
}

/** A message from a worker to the main thread. */
export type WorkerMessage =
  /** The worker warms up. */
  | { readonly kind: "begun" }
  /** The worker has warmed up. */
  | { readonly kind: "warm" }
  /** The worker has opened its sockets, except those that take connections. */
  | { readonly kind: "open" }
  /** The worker has opened all its sockets. */
  | { readonly kind: "listening" }
  /** The worker cannot open its sockets. */
  | {
    readonly kind: "refused";
    readonly reason: string;
    /** Members of the ListenError. */
    readonly socket?: { readonly listen: Listen; readonly code: string };
  }
  /** The last connection of the worker is closed. */
  | { readonly kind: "ended" }
  /** A client sent the `shutdown` command. */
  | { readonly kind: "shutdown" }
  /** A client sent a password. */
  | {
    readonly kind: "authenticate";
    readonly owner: ConnectionId;
    readonly credentials: Credentials;
  }
  | { readonly kind: "event"; readonly event: TransportEvent };

/** Returns the event of `token drop` and `token drop_all`. */
export function tokensDropped({ token, count, by }: TokenDrop): TransportEvent {
  const level = "warning";
  const event = "token_dropped";
  if (token === null) {
    return {
      level,
      event,
      message: `${by} dropped all ${count} update tokens; their owners may still write`,
      fields: { count, by },
    };
  }
  const { id, ageSec } = token;
  const key = printable(token.key);
  const owner = token.owner || "-";
  const peer = oneWord(token.peer) || "-";
  return {
    level,
    event,
    message: `${by} dropped the update token ${id} of key ${key}, owner ${owner}, got by ${peer} ` +
      `${ageSec} s ago; its owner may still write`,
    fields: { key, id, owner, peer, age: ageSec, by },
  };
}
