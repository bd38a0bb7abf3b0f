import type { Conversation } from "../../../protocol/conversation.ts";
import type { ConnectionId, ConnectionKind } from "../../../store/connections.ts";
import type { CloseReason } from "../../../store/cache.ts";
import type { TimedConnection } from "../connection_timeouts.ts";

/** What a worker knows of one open socket. Between two requests it holds no buffer. */
export class NativeConnection implements TimedConnection {
  readonly fd: number;
  /** 0-based number of the listener that accepted it. */
  readonly tag: number;
  readonly kind: ConnectionKind;
  readonly id: ConnectionId;
  readonly conversation: Conversation;
  /** Bytes that the conversation has not consumed yet. */
  pending: Uint8Array | null = null;
  /** Replies that the kernel did not accept; empty: the connection's slice has ended. Unless null, nothing is read. */
  unsent: Uint8Array | null = null;
  /** A reply to it waits in the outbox. */
  queued = false;
  /** When the kernel last took a byte of `unsent`, in seconds of the store's clock. */
  progressAtSec = 0;
  /**
   * What it sends next is expected to fit a slot: it has sent little, or the end of a long value,
   * and nothing since that filled one.
   */
  readsAreShort = false;
  closed = false;
  /** For those who watch connections. */
  closeReason: CloseReason = "normal";
  /** The conversation waits: nothing is read until the store says that it may go on. */
  waiting = false;

  constructor(
    fd: number,
    tag: number,
    kind: ConnectionKind,
    id: ConnectionId,
    conversation: Conversation,
  ) {
    this.fd = fd;
    this.tag = tag;
    this.kind = kind;
    this.id = id;
    this.conversation = conversation;
  }

  /** Whether it may be read into a slot, to be executed later in the round. */
  get fitsSlot(): boolean {
    return this.readsAreShort && this.pending === null && !this.queued && this.mayRead;
  }

  /** As `TimedConnection`. */
  get isIdle(): boolean {
    return this.conversation.idle && this.unsent === null;
  }

  /** As `TimedConnection`. */
  get sendingSinceSec(): number {
    return this.unsent === null ? 0 : this.progressAtSec;
  }

  /** Whether more of what it sends may be read now. */
  get mayRead(): boolean {
    return !this.closed && !this.waiting && this.unsent === null;
  }
}
