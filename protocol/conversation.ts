import { Activity, type ConnectionId } from "../store/connections.ts";
import { clockSec } from "../store/clock.ts";
import * as connectionsModule from "../store/connections.ts";
import { Access } from "./auth/access.ts";
import * as requestTimesModule from "./counts/request_times.ts";
import * as statsModule from "../store/stats.ts";
import { REQUEST_MAGIC } from "./binary_header.ts";
import type { CommandName } from "./counts/op_counts.ts";
import type { CloseReason, RowParking, RowSession } from "../store/cache.ts";
import type { WireProtocol } from "./settings.ts";
import type { HoldingThread, RequestThread, ThreadContext } from "./thread_context.ts";

const { NO_OWNER } = connectionsModule;
const { STAT, THREAD_STAT } = statsModule;
const { NO_REQUEST } = requestTimesModule;

// Hot path: no allocation.

/** The transport's next action after `feed`. In every state it first sends the reply buffer. */
export const ConversationState = {
  /** Bring more bytes. */
  NEEDS_INPUT: 0,
  /**
   * The slice is over, or the reply buffer is full: then serve other connections, and after them call `feed` again with
   * the bytes that were left, also if there are none.
   */
  UNFINISHED: 1,
  /** Then close the connection. */
  CLOSING: 2,
  /**
   * Then read nothing, but notice when the peer is gone, until the store says that this
   * connection's waiting is over (`cache.onReady`, `ThreadContext.takeReady`). Then call `feed`
   * again with the bytes that were left, also if there are none.
   */
  WAITING: 3,
} as const;

export type ConversationState = typeof ConversationState[keyof typeof ConversationState];

/** How a connection speaks. */
export interface ConversationOptions {
  readonly protocol: WireProtocol;
  /** One datagram's requests, not a stream. */
  readonly udp?: boolean;
}

/** How a protocol's bytes become operations. One a thread and protocol: it keeps nothing of a connection. */
export interface Parser {
  /** Whether `run` may be called without the mutex: it takes it by `thread.hold` where it needs it. Left out: no. */
  readonly isOptimistic?: boolean;
  /** The commands it knows, for `stats ops`. */
  readonly commands: readonly CommandName[];
  /**
   * Executes requests in the thread's input [start, end) until the input is used up, the reply buffer is full, the
   * slice is over, the connection shall close, or `conversation.task` is set. In all cases but the
   * last, it calls `conversation.pause`.
   *
   * @returns The first byte not consumed.
   */
  run(conversation: Conversation, start: number, end: number): number;
}

/** Work of a connection that can outlast a call of `feed`. */
export interface Task {
  /**
   * Continues it. When it is done it sets `conversation.task` to null or to its successor; when
   * it can go no further for now, it calls `conversation.pause`.
   *
   * @returns The first byte not consumed.
   */
  run(conversation: Conversation, start: number, end: number): number;
  /** As `Parser.isOptimistic`. */
  readonly isOptimistic?: boolean;
  /** The activity to report while it waits; left out: Activity.WAITING, or READING when it waits for bytes. */
  readonly activity?: Activity;
  /** Whether it waits for the server alone, its disk or a password check: a server that stops answers it before. */
  readonly awaitsServer?: boolean;
  /** The connection is gone: gives back what the task holds. */
  abandon(thread: RequestThread): void;
}

/** The keys of one line, executed one after the other. */
export interface Multiget extends Task {
  /**
   * For a new line.
   *
   * @param kind A MultigetKind.
   * @param deadlineSec For GAT, GATS: of the items; for GETSS, LEASE_GET: of the leases.
   */
  begin(kind: number, deadlineSec?: number): void;
}

/**
 * The protocols of one thread, which all its conversations use. An interface, because parsers import
 * this file: thread_protocols.ts implements it.
 */
export interface Protocols {
  readonly thread: ThreadContext;
  /** Returns the parser of the text protocol for peers with this access. */
  textFor(access: Access): Parser;
  /** Returns the parser of the binary protocol for peers with this access. */
  binaryFor(access: Access): Parser;
  /** For the next line of keys; a connection that needs it longer takes it, and puts a new one here. */
  multiget: Multiget;
}

/** One connection: bytes in, replies out. It owns no buffer. */
export class Conversation {
  readonly thread: HoldingThread;
  readonly protocols: Protocols;
  /** The connection's number; for locks. */
  readonly owner: ConnectionId;
  readonly udp: boolean;
  /** The peer's rights. */
  access: Access;
  /** Whether an exchange of SASL has begun. */
  saslStarted = false;
  /** Since when the peer has not authenticated, in seconds of the store's clock; 0: it has authenticated. */
  unauthenticatedSinceSec: number;
  /** Good after `feed`. */
  state: ConversationState = ConversationState.NEEDS_INPUT;
  /** Good in state CLOSING. */
  closeReason: CloseReason = "normal";
  /** Null: between requests. */
  task: Task | null = null;
  /** Its requests to the database that have not been answered; null: none. */
  rows: RowSession | null = null;
  /** Whether the request that `feed` left unconsumed lacks only its value. */
  valueMissing = false;
  #parser: Parser | null;
  /** The activity in the connection's row while it waits for bytes. */
  #reported: Activity = Activity.READING;
  /** How many bytes the last `feed` did not consume: they come again, and have been counted. */
  #leftLength = 0;
  #paused = false;
  #ended = false;
  /** Whether the requests that the last `feed` began with have been answered in part. */
  #answered = false;
  /** The request that the last `feed` did not answer, for `RequestTimes`. */
  #unanswered = NO_REQUEST;

  /** @param owner Above 0, and of no other open connection; NO_OWNER for a datagram. */
  constructor(protocols: Protocols, owner: ConnectionId, options: ConversationOptions) {
    this.thread = protocols.thread;
    this.protocols = protocols;
    this.owner = owner;
    this.udp = options.udp ?? false;
    const isOpen = this.thread.auth === null;
    this.access = isOpen ? Access.ADMIN : Access.NONE;
    this.unauthenticatedSinceSec = isOpen ? 0 : authClockSec(this.thread);
    this.#parser = options.protocol === "ascii" ? protocols.textFor(this.access) : null;
    if (options.protocol === "binary") this.#parser = protocols.binaryFor(this.access);
  }

  /** Between requests: `idle_timeout` applies. */
  get idle(): boolean {
    return this.task === null;
  }

  /** Whether its reply comes without anything from the peer or from other clients. */
  get awaitsServer(): boolean {
    return this.task?.awaitsServer ?? false;
  }

  /** In state WAITING: what it waits for, for reports. */
  get waitActivity(): Activity {
    return this.task?.activity ?? Activity.WAITING;
  }

  /** In state NEEDS_INPUT: what it waits for, for reports. */
  get inputActivity(): Activity {
    return this.task?.activity ?? (this.valueMissing ? Activity.VALUE : Activity.READING);
  }

  /** Whether nothing has been answered of what was received together with the request that is executed. */
  get isAlone(): boolean {
    return !this.#answered && this.thread.reply.isEmpty;
  }

  /**
   * Executes complete requests in the thread's input [start, end), all of them if they fit one slice. Replies are
   * appended to the thread's reply buffer; the caller resets it before, or appends to it, and sends them after. Takes
   * the store's mutex for the first request that needs it, and releases it at the end, in front of reads that go
   * without it, and for a moment whenever a hold's work is done.
   *
   * @returns The first byte that was not consumed. The caller keeps [returned, end), at most PENDING_BYTES_MAX after
   *   NEEDS_INPUT, and passes it again before the next bytes. `state` says what to do.
   */
  feed(start: number, end: number): number {
    this.thread.work.begin();
    return this.execute(start, end);
  }

  /** As `feed`, within the slice that has begun. */
  protected execute(start: number, end: number): number {
    // Only here do batches begin and end.
    const thread = this.thread as ThreadContext;
    const { cache, operation, reply, memory, times } = thread;
    if (this.state !== ConversationState.UNFINISHED) this.#answered = false;
    const { parking } = cache;
    if (parking !== null) parking.begin(this.rows);
    thread.beginBatch();
    times.resume(this.#unanswered);
    const replyStart = reply.totalLength;
    operation.owner = this.owner;
    cache.watchLog.connection = this.owner;
    memory.threadStats[THREAD_STAT.batches]! += 1;
    memory.stats[STAT.bytes_read]! += end - start - this.#leftLength;
    let at = start;
    this.#paused = false;
    this.valueMissing = false;
    while (!this.#paused) {
      const next = this.task ?? this.#parser;
      if (next === null) {
        this.#chooseParser(at, end);
      } else {
        if (next.isOptimistic !== true) thread.hold();
        at = next.run(this, at, end);
      }
    }
    this.#unanswered = times.suspend(this.task === null);
    this.#leftLength = end - at;
    if (!reply.isEmpty) this.#answered = true;
    memory.stats[STAT.bytes_written]! += reply.totalLength - replyStart;
    // The input may change before the next call.
    cache.prefetch.clear();
    if (parking !== null) this.#keepRows(parking);
    // A client that has received the last reply finds the connection's locks free.
    if (this.state === ConversationState.CLOSING) {
      thread.hold();
      this.#release();
    } else if (this.state === ConversationState.NEEDS_INPUT) this.#reportActivity();
    thread.endBatch();
    return at;
  }

  /** Sets what the peer may do from the next request on. */
  grant(access: Access): void {
    const { protocols, thread } = this;
    const isAuthenticated = access !== Access.NONE;
    if (isAuthenticated) this.unauthenticatedSinceSec = 0;
    else this.unauthenticatedSinceSec ||= authClockSec(thread);
    const isText = this.#parser === protocols.textFor(this.access);
    this.access = access;
    this.#parser = isText ? protocols.textFor(access) : protocols.binaryFor(access);
  }

  /** Stops `feed`, for the reason that `state` gives. */
  pause(state: ConversationState): void {
    this.state = state;
    this.#paused = true;
  }

  /** The connection is gone, for whatever reason: releases what it holds. Idempotent. */
  end(): void {
    if (this.#ended) return;
    const { cache } = this.thread;
    cache.enter();
    this.#release();
    cache.leave();
  }

  /** Keeps the requests to the database that are not answered, and gives up reads that were made ahead in vain. */
  #keepRows(parking: RowParking): void {
    const { session } = parking;
    parking.session = null;
    this.rows = session;
    if (session === null && !parking.hasResult) return;
    this.thread.hold();
    parking.dropResult();
    const isOver = this.state === ConversationState.NEEDS_INPUT;
    // Writes are never given up: the bytes of their requests come again.
    if (session === null || session.isWriting || !isOver) return;
    parking.abandon(session);
    this.rows = null;
  }

  #reportActivity(): void {
    const activity = this.inputActivity;
    if (activity === this.#reported) return;
    this.#reported = activity;
    if (this.owner !== NO_OWNER) this.thread.connections.setActivity(this.owner, activity);
  }

  #release(): void {
    this.#ended = true;
    this.task?.abandon(this.thread);
    this.task = null;
    if (this.rows !== null) this.thread.cache.parking!.abandon(this.rows);
    this.rows = null;
    if (this.owner !== NO_OWNER) this.thread.cache.releaseOwner(this.owner);
  }

  /** The first byte of a connection decides (memcached: `-B auto`). */
  #chooseParser(start: number, end: number): void {
    const { input } = this.thread;
    if (start === end) {
      this.pause(ConversationState.NEEDS_INPUT);
    } else if (input.bytes[start] !== REQUEST_MAGIC) {
      this.#parser = this.protocols.textFor(this.access);
    } else {
      this.#parser = this.protocols.binaryFor(this.access);
    }
  }
}

/**
 * A conversation, as handlers see it: with the request it executes, not with bytes, and with the mutex as their caller
 * took it.
 */
export type RequestConversation = Omit<Conversation, "thread" | "protocols" | "feed" | "end"> & {
  readonly thread: RequestThread;
  readonly protocols: Omit<Protocols, "thread">;
};

/** The store's clock, but never 0, which stands for no wait. */
function authClockSec({ memory }: RequestThread): number {
  return Math.max(1, clockSec(memory));
}
