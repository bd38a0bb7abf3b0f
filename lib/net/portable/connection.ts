import { clockSec } from "../../../store/clock.ts";
import { concatBytes } from "../../../store/base/bytes.ts";
import { ConversationState } from "../../../protocol/conversation.ts";
import { Activity, type ConnectionId, type ConnectionKind } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { INPUT_BYTES, PENDING_BYTES_MAX, REPLY_BYTES } from "../../../store/limits.ts";
import type { CloseReason } from "../../../store/cache.ts";
import { BufferPool } from "./buffer_pool.ts";
import { closeQuietly, isConnectionError } from "./sockets.ts";
import type { TimedConnection } from "../connection_timeouts.ts";
import { FairScheduler } from "./fair_scheduler.ts";
import type { ServedConversation, Service } from "../service.ts";
import type { TransportThread } from "../worker_transport.ts";

// Hot path, as far as the runtime's sockets allow: a read and a write each cost promises of their own.

/** Read buffer of an idle connection: about fifteen requests for single keys. */
const IDLE_READ_BYTES = 512;
/** Read buffer of a connection that pipelines small requests. */
const BUSY_READ_BYTES = 4096;
/** Read buffer of a connection that sends large values: the input region, less room for pending bytes. */
const BULK_READ_BYTES = INPUT_BYTES - PENDING_BYTES_MAX;
const BULK_READ_BUFFERS_MAX = 64;
/** Reads in a row that fit the next smaller buffer, before the connection goes back to it. */
const SMALL_READS_BEFORE_SHRINKING = 16;
const SMALL_REPLY_BYTES = 16 * 1024;
/** Stands for a failed read among the results of `Deno.Conn.read`. */
const READ_FAILED = -1;

/** State that the connections of one thread share. */
export class ConnectionBuffers {
  /** By buffer size, the smallest first. */
  readonly reads: readonly BufferPool[] = [
    new BufferPool(IDLE_READ_BYTES, Infinity),
    new BufferPool(BUSY_READ_BYTES, 256),
    new BufferPool(BULK_READ_BYTES, 16, BULK_READ_BUFFERS_MAX),
  ];
  readonly smallReplies: BufferPool = new BufferPool(SMALL_REPLY_BYTES, 64);
  readonly largeReplies: BufferPool = new BufferPool(REPLY_BYTES, 8);
  readonly scheduler: FairScheduler = new FairScheduler();
  /** Open connections whose conversations have waited for the store, for example for a lock, by id. */
  readonly everWaiting: Map<ConnectionId, PortableConnection> = new Map();
}

/**
 * One connection: reads, feeds the conversation, and sends the replies before it reads again. So a
 * peer that sends and never reads costs one reply buffer and the bytes of one read.
 */
export class PortableConnection implements TimedConnection {
  readonly id: ConnectionId;
  /** Reported to watchers; valid when the connection is closed. */
  closeReason: CloseReason = "normal";
  readonly #socket: Deno.Conn;
  readonly #thread: TransportThread;
  readonly #conversation: ServedConversation;
  readonly #buffers: ConnectionBuffers;
  #readBuffer: Uint8Array<ArrayBuffer>;
  /** Index of the pool that the read buffer is from. */
  #readPool = 0;
  #smallReads = 0;
  /** Bytes received and not consumed. */
  #pending: Uint8Array | null = null;
  /**
   * Bytes received during a wait. They are fed when the conversation wants input, as if they had been read then: rows
   * that it has read ahead for the bytes before may be older than these requests.
   */
  #early: Uint8Array | null = null;
  /** When the peer last took bytes, in seconds of the store's clock; 0: nothing is being sent. */
  #sendingSinceSec = 0;
  /** The read that is pending while the conversation waits. */
  #reading: Promise<number | null> | null = null;
  /** Ends a pause in `#wait`. */
  #resume: () => void = () => {};
  /** Whether the conversation's wait for the store is over. */
  #resumed = false;
  #closing = false;
  #closed = false;

  constructor(
    socket: Deno.Conn,
    readonly kind: ConnectionKind,
    thread: TransportThread,
    readonly service: Service,
    conversation: ServedConversation,
    buffers: ConnectionBuffers,
  ) {
    this.#socket = socket;
    this.id = conversation.owner;
    this.#thread = thread;
    this.#conversation = conversation;
    this.#buffers = buffers;
    this.#readBuffer = buffers.reads[0]!.take()!;
  }

  /** As `TimedConnection`. */
  get isIdle(): boolean {
    return this.#sendingSinceSec === 0 && this.#conversation.idle;
  }

  /** As `TimedConnection`. */
  get unauthenticatedSinceSec(): number {
    return this.#conversation.unauthenticatedSinceSec;
  }

  /** As `TimedConnection`. */
  get sendingSinceSec(): number {
    return this.#sendingSinceSec;
  }

  /** Ends the conversation's wait for the store. */
  resume(): void {
    this.#resumed = true;
    this.#resume();
  }

  /** Closes now. A read or write in progress fails. */
  close(reason: CloseReason = "normal"): void {
    if (this.#closed) return;
    this.#closed = true;
    this.closeReason = reason;
    closeQuietly(this.#socket);
  }

  /**
   * Closes once replies in progress are sent and a wait for the server alone is over. Drops requests that wait for a
   * lock.
   */
  finish(): void {
    this.#closing = true;
    if (this.#sendingSinceSec === 0 && !this.#conversation.awaitsServer) this.close("shutdown");
  }

  /**
   * Serves the connection until it closes. Rejects only for a broken invariant, never for an error of the peer.
   *
   * @param ended Called when the connection holds no resource any more.
   */
  async serve(ended: (connection: PortableConnection) => void): Promise<void> {
    try {
      await this.#converse();
    } catch (error) {
      // Any other error is a broken invariant, perhaps with the mutex held: nothing may be used any more.
      if (!isConnectionError(error)) throw error;
      this.close("error");
    }
    // End first: when the peer sees the connection close, its locks and leases must be free already.
    this.#conversation.end();
    this.#buffers.everWaiting.delete(this.id);
    this.close(this.#conversation.closeReason);
    // A read that is still pending may yet write into its buffer.
    const pool = this.#buffers.reads[this.#readPool]!;
    if (this.#reading === null) pool.give(this.#readBuffer);
    else pool.forget();
    ended(this);
  }

  /** Reads, executes and replies until either side ends the conversation. */
  async #converse(): Promise<void> {
    const { cache, input, reply, times, work } = this.#thread;
    const conversation = this.#conversation;
    let open = true;
    while (open && (!this.#closing || this.#early !== null)) {
      let received: number | null = 0;
      if (this.#early === null) {
        received = await (this.#reading ?? this.#socket.read(this.#readBuffer));
        this.#reading = null;
        if (received === null) return;
      }
      times.readClock();
      const readAtUs = times.clockUs[0]!;
      const full = received === this.#readBuffer.length;
      let end = this.#early === null ? this.#takeReceived(received) : this.#takeEarly(this.#early);
      let units = 0;
      for (;;) {
        reply.reset();
        times.beginLate(readAtUs);
        const at = conversation.feed(0, end);
        cache.applyHits();
        units = work.spent;
        if (at < end) this.#pending = input.bytes.slice(at, end);
        const { state } = conversation;
        if (state === ConversationState.WAITING) this.#buffers.everWaiting.set(this.id, this);
        const sending = reply.length > 0 ? this.#send(state) : null;
        // Before other connections of the thread are served; the runtime has begun to write.
        times.endLate();
        if (sending !== null) await sending;
        if (state === ConversationState.WAITING) open = await this.#wait();
        if (state === ConversationState.CLOSING || this.#closed) open = false;
        if (!open || state === ConversationState.NEEDS_INPUT) break;
        if (state === ConversationState.UNFINISHED) await this.#yield(units);
        end = this.#restorePending();
      }
      if (open && full) await this.#yield(units);
    }
  }

  /** Waits for other connections if the slice is over. */
  async #yield(units: number): Promise<void> {
    this.#thread.memory.stats[STAT.conn_yields]! += 1;
    const turn = this.#buffers.scheduler.charge(units);
    if (turn !== null) await turn;
  }

  /** Puts received bytes into the input, behind bytes left over from before. Returns where they end. */
  #takeReceived(received: number): number {
    const { input, memory } = this.#thread;
    this.service.connections.seen(this.id, clockSec(memory));
    const start = this.#restorePending();
    const buffer = this.#readBuffer;
    input.bytes.set(received === buffer.length ? buffer : buffer.subarray(0, received), start);
    this.#resizeReads(received);
    return start + received;
  }

  /**
   * Waits until the store resumes the conversation. Until then, reads a little, to notice when the peer
   * closes; these bytes are executed afterwards. A wait for the server alone is short: a peer that has
   * only ended its side gets the reply.
   *
   * @returns False if the peer closed, and no reply is due.
   */
  async #wait(): Promise<boolean> {
    const { connections } = this.service;
    connections.setActivity(this.id, this.#conversation.waitActivity);
    let over = false;
    let gone = false;
    const watch = async (): Promise<void> => {
      for (;;) {
        const early = this.#early?.length ?? 0;
        if (early > PENDING_BYTES_MAX) return;
        // With what the conversation leaves over, they must fit the input.
        const room = this.#readBuffer.subarray(0, BULK_READ_BYTES - early);
        this.#reading ??= this.#socket.read(room);
        const received = await this.#reading.catch(() => READ_FAILED);
        // The wait is over, or only the peer's side is: `#reading` serves the next read.
        if (over || (received === null && this.#conversation.awaitsServer)) return;
        if (received === null || received === READ_FAILED) {
          gone = true;
          this.#resume();
          return;
        }
        this.#reading = null;
        const bytes = this.#readBuffer.subarray(0, received);
        this.#early = concatBytes(this.#early === null ? [bytes] : [this.#early, bytes]);
      }
    };
    watch();
    while (!this.#resumed && !gone) {
      await new Promise<void>((resolve) => this.#resume = resolve);
    }
    over = true;
    this.#resumed = false;
    connections.setActivity(this.id, this.#conversation.inputActivity);
    return !gone;
  }

  /** Puts bytes of a wait behind pending ones. Returns where they end. */
  #takeEarly(early: Uint8Array): number {
    this.#early = null;
    const start = this.#restorePending();
    this.#thread.input.bytes.set(early, start);
    return start + early.length;
  }

  /** Puts pending bytes back to the start of the input. Returns where they end. */
  #restorePending(): number {
    const pending = this.#pending;
    if (pending === null) return 0;
    this.#pending = null;
    this.#thread.input.bytes.set(pending);
    return pending.length;
  }

  /**
   * Sends the reply buffer. All connections of the thread share it, and a write may take long, so the bytes are copied
   * out of it first.
   */
  async #send(state: ConversationState): Promise<void> {
    const { reply, memory } = this.#thread;
    const { connections } = this.service;
    const { length } = reply;
    const pool = length <= SMALL_REPLY_BYTES
      ? this.#buffers.smallReplies
      : this.#buffers.largeReplies;
    const buffer = pool.take()!;
    buffer.set(reply.region.bytes.subarray(0, length));
    connections.setActivity(
      this.id,
      state === ConversationState.CLOSING ? Activity.CLOSING : Activity.WRITING,
    );
    try {
      for (let sent = 0; sent < length;) {
        this.#sendingSinceSec = clockSec(memory);
        sent += await this.#socket.write(buffer.subarray(sent, length));
      }
    } catch (error) {
      pool.forget();
      throw error;
    }
    this.#sendingSinceSec = 0;
    connections.setActivity(this.id, this.#conversation.inputActivity);
    pool.give(buffer);
  }

  /** Chooses the buffer of the next read by the length of this one. */
  #resizeReads(received: number): void {
    const { reads } = this.#buffers;
    const pool = this.#readPool;
    if (received === this.#readBuffer.length) {
      this.#smallReads = 0;
      if (pool + 1 < reads.length) this.#readFrom(pool + 1);
    } else if (pool === 0 || received > reads[pool - 1]!.bufferBytes) {
      this.#smallReads = 0;
    } else if (++this.#smallReads >= SMALL_READS_BEFORE_SHRINKING) {
      this.#smallReads = 0;
      this.#readFrom(pool - 1);
    }
  }

  /** Changes to a buffer of another pool if it has one. */
  #readFrom(pool: number): void {
    const { reads } = this.#buffers;
    const buffer = reads[pool]!.take();
    if (buffer === null) return;
    reads[this.#readPool]!.give(this.#readBuffer);
    this.#readBuffer = buffer;
    this.#readPool = pool;
  }
}
