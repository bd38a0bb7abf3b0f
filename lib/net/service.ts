import type { ConversationState } from "../../protocol/conversation.ts";
import type { CloseReason } from "../../store/cache.ts";
import type {
  Activity,
  ConnectionId,
  ConnectionKind,
  ConnectionTable,
} from "../../store/connections.ts";
import type { EventSource } from "./transport.ts";

/** One connection's protocol, as its transport sees it: bytes in, replies out. */
export interface ServedConversation {
  /** The connection's row in the service's table. */
  readonly owner: ConnectionId;
  /** The transport's next action after `feed`. */
  readonly state: ConversationState;
  /** Valid in state CLOSING. */
  readonly closeReason: CloseReason;
  /** Null between requests. If it is a `FillTask`, the transport may receive straight into the value. */
  readonly task: object | null;
  /** Whether it is between requests: `idle_timeout` applies. */
  readonly idle: boolean;
  /** Whether the reply depends on neither the peer nor other clients: a server that stops sends it before. */
  readonly awaitsServer: boolean;
  /** The activity to report in state WAITING. */
  readonly waitActivity: Activity;
  /** The activity to report in state NEEDS_INPUT. */
  readonly inputActivity: Activity;
  /** Since when the peer has not authenticated, in seconds of the store's clock; 0: it has, or need not. */
  readonly unauthenticatedSinceSec: number;
  /**
   * Executes requests in the thread's input [start, end) for one slice. Appends the replies to the thread's reply
   * buffer and counts the work in the thread's budget.
   *
   * @returns The first byte that was not consumed; the transport passes it again before the next bytes. At most
   *   PENDING_BYTES_MAX are left in state NEEDS_INPUT.
   */
  feed(start: number, end: number): number;
  /** Releases what the connection holds. Called when the connection is gone, for whatever reason. */
  end(): void;
}

/** The protocol of a listener, as a transport sees it. Each thread that serves it has its own. */
export interface Service {
  /** The rows of its connections. */
  readonly connections: ConnectionTable;
  /**
   * Whether every thread serves it: a new connection goes to the thread with the fewest, and waits under
   * `no_maxconns_fast`. Otherwise it stays with the thread that accepts it.
   */
  readonly isShared: boolean;
  /** Whether `--idle-timeout` and `--lock-idle-timeout` close its connections. */
  readonly limitsSilence: boolean;
  /** Sent to a refused peer; may be empty. */
  readonly refusal: Uint8Array;
  /**
   * Opens a connection.
   *
   * @param peer The peer's address, as `stats conns` shows it.
   * @param listener The name of the listener that accepted it.
   * @returns Null if there are too many: the transport refuses the peer and closes.
   */
  open(kind: ConnectionKind, peer: string, listener: string): ServedConversation | null;
  /** Frees the row. The conversation must have ended. */
  close(id: ConnectionId, reason: CloseReason): void;
  /** Returns the connection as the log names it. */
  sourceOf(id: ConnectionId): EventSource;
}
