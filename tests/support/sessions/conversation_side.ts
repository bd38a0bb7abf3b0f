import { assert } from "@std/assert";
import { noteStore } from "../collected_stores.ts";
import { type Conversation, ConversationState } from "../../../protocol/conversation.ts";
import { readUserFile } from "../../../lib/auth/user_file.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { type Credentials, Verdicts } from "../../../protocol/auth/password_checks.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { readCommand } from "../../../lib/cli/command.ts";
import {
  createSharedState,
  type SharedState,
  type ThreadContext,
  type TokenDrop,
} from "../../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import type { ProtocolEvent } from "../../../protocol/traced_conversation.ts";
import { Cache } from "../../../store/cache.ts";
import { checkStore } from "../../../store/check/check.ts";
import { writeClock } from "../../../store/clock.ts";
import { type ConnectionId, ConnectionKind, NO_OWNER } from "../../../store/connections.ts";
import { INPUT_BYTES, PENDING_BYTES_MAX } from "../../../store/limits.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { STAT } from "../../../store/stats.ts";
import { joinThread } from "../threads.ts";
import type { SavedStore } from "../saved_store.ts";
import { bytesOf, parseStats, type Peer, type Side, textOf } from "./side.ts";
import { held } from "../store.ts";

/** Default options of tests: enough memory for values of every size, and fewer connections. */
const OPTIONS = ["-m", "16", "-c", "64", "-t", "1", "-o", "memlimit_max=1"];
/** Fixed process info. */
const FACTS = {
  version: "0.0.0",
  runtime: "tests",
  pid: 1,
  unixMs: 1_700_000_000_000,
  random: 0.5,
  hashSeed: Int32Array.of(1, 2),
  keepsMemoryOrder: Deno.build.arch === "x86_64",
  processors: 1,
} as const;
/** Servers between two forced collections. */
const SERVERS_PER_COLLECTION = 512;

/** A longer span passes in this many steps. */
const STEPS_MAX = 100;

function latin1(bytes: Uint8Array): string {
  return latin1Text(bytes, 0, bytes.length);
}

/**
 * A whole server without sockets and threads: conversations over a store whose clock is moved by
 * hand. With `using`, its memory is checked at the end.
 */
export class ConversationSide implements Side, Disposable {
  readonly name = "conversations";
  readonly secondsMax = Infinity;
  readonly unsteadyStats: ReadonlySet<string> = new Set();
  readonly thread: ThreadContext;
  readonly protocols: ThreadProtocols;
  /** With `thread.settings`: the parts of further threads over the same store. */
  readonly shared: SharedState;
  /** The last request of the `shutdown` command. */
  shutdown: "no" | "graceful" | "at once" = "no";
  /** Update tokens that operators dropped. */
  readonly drops: TokenDrop[] = [];
  /** Logged lines: protocol errors with -vv, commands with -vvv. */
  readonly events: ProtocolEvent[] = [];
  /** Set to a list: results of password checks wait in it for `deliverVerdicts`. */
  heldVerdicts: (() => void)[] | null = null;
  /** Whether it has taken the pages of an earlier process as they were. */
  readonly tookPages: boolean = false;
  readonly #peers = new Map<number, ConversationPeer>();
  #nowMs = 0;

  /**
   * @param options As on the command line.
   * @param rightFrom The source of the right to serve rows.
   * @param saved The snapshot that the server loads; none: it begins empty.
   */
  constructor(options: readonly string[] = [], rightFrom?: string, saved?: SavedStore) {
    noteStore(SERVERS_PER_COLLECTION);
    const clockMs = saved?.header.clockMs ?? 0;
    const facts = { ...FACTS, unixMs: FACTS.unixMs + clockMs };
    const command = readCommand([...OPTIONS, ...options], facts);
    if (command.kind !== "run") throw new Error(`Cannot start with ${options.join(" ")}`);
    const { options: settings } = command;
    const { store } = settings;
    const memory = createSharedMemory({
      ...saved === undefined ? store : saved.optionsFrom(store, 0),
      rows: store.rows && { ...store.rows, rightFrom },
    });
    const cache = Cache.format(new Memory(memory));
    if (saved !== undefined) this.tookPages = saved.restore(cache, 0);
    this.#nowMs = clockMs;
    this.shared = createSharedState(memory, settings);
    this.thread = joinThread({ shared: this.shared, settings }, 0, {
      shutdown: (graceful) => {
        this.shutdown = graceful ? "graceful" : "at once";
      },
      tokensDropped: (drop) => this.drops.push(drop),
      authenticate: (owner, credentials) => this.#authenticate(owner, credentials),
    });
    this.protocols = new ThreadProtocols(this.thread, (event) => this.events.push(event));
  }

  /** Checks a password of a user file without hashes, at once or when the test says so. */
  #authenticate(owner: ConnectionId, { user, password }: Credentials): void {
    const users = readUserFile(this.thread.settings.authFile);
    const right = users.get(latin1(user))?.find(({ secret }) => secret === latin1(password));
    const deliver = (): void => {
      const verdicts = new Verdicts(this.shared.verdicts!, this.thread.connections);
      verdicts.deliver(owner, right?.access ?? Access.NONE);
    };
    if (this.heldVerdicts === null) deliver();
    else this.heldVerdicts.push(deliver);
  }

  /** Delivers verdicts that are held back, the first ones first. */
  deliverVerdicts(count = Infinity): void {
    for (const deliver of this.heldVerdicts!.splice(0, count)) deliver();
    this.thread.takeReady(0, (owner) => this.#peers.get(owner)?.goOn());
  }

  /** A connection; synchronous, for tests that are. */
  connect(): ConversationPeer {
    const peer = new ConversationPeer(this.protocols, () => this.#resumeReady());
    this.#peers.set(peer.owner, peer);
    return peer;
  }

  /** Lets connections go on whose waiting for a lock is over, as a transport does when it is woken. */
  #resumeReady(): void {
    const { cache } = this.thread;
    for (;;) {
      this.work();
      const owner = held(
        cache,
        () =>
          cache.locks.waiters.takeReady(0) || cache.tokens.waiters.takeReady(0) ||
          (cache.rows?.requests.takeReady(0) ?? 0),
      );
      if (owner === 0) return;
      this.#peers.get(owner)?.goOn();
    }
  }

  /** Does the work of the process's other threads. */
  protected work(): void {}

  open(): Promise<ConversationPeer> {
    return Promise.resolve(this.connect());
  }

  advance(seconds: number): Promise<void> {
    this.advanceNow(seconds);
    return Promise.resolve();
  }

  /** Advances the clock and runs the maintenance that a process would run meanwhile. */
  advanceNow(seconds: number): void {
    const { cache } = this.thread;
    const stepSec = Math.ceil(seconds / STEPS_MAX);
    for (let left = seconds; left > 0; left -= stepSec) {
      this.pause(Math.min(left, stepSec));
      cache.enter();
      while (cache.maintain());
      cache.leave();
    }
    this.#resumeReady();
  }

  /** Advances the clock while the process does nothing. */
  pause(seconds: number): void {
    this.#nowMs += seconds * 1000;
    writeClock(this.thread.memory, this.#nowMs);
  }

  /** Sets the clock to that of an earlier process. */
  resume(milliseconds: number): void {
    this.#nowMs = milliseconds;
    this.pause(0);
  }

  /** Forgets all items and counts, so that another case can be played as if nothing had been before. */
  empty(): void {
    const peer = this.connect();
    peer.ask("stats reset\r\n");
    peer.disconnect();
    const { cache } = this.thread;
    cache.enter();
    cache.flushAll(0);
    cache.tokens.quarantine(false);
    cache.tokens.dropNewest(Infinity);
    while (cache.maintain());
    cache.leave();
  }

  settle(): Promise<void> {
    return Promise.resolve();
  }

  stats(): Promise<Map<string, number>> {
    return Promise.resolve(this.statsNow());
  }

  statsNow(): Map<string, number> {
    const peer = this.connect();
    const stats = parseStats(peer.ask("stats\r\n"));
    peer.disconnect();
    return stats;
  }

  /** Walks the memory. */
  check(): void {
    checkStore(this.thread.memory);
  }

  [Symbol.dispose](): void {
    this.check();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** A client that is served the way transports do it, at once. */
export class ConversationPeer implements Peer {
  /** Of the thread that serves it. */
  protocols: ThreadProtocols;
  #thread: ThreadContext;
  #conversation: Conversation;
  /** Bytes that the conversation left unconsumed. */
  #pending: Uint8Array = new Uint8Array(0);
  /** Bytes sent while the conversation waited. A transport leaves them in the kernel. */
  readonly #unread: Uint8Array[] = [];
  #received = "";
  #closed = false;
  readonly #after: () => void;
  /** Called between two slices, when other connections are served. */
  between: () => void = () => {};

  /**
   * @param after Called after everything that others may have waited for.
   * @param threadIndex Of the thread that serves it: who is to be woken for it.
   */
  constructor(protocols: ThreadProtocols, after: () => void = () => {}, threadIndex = 0) {
    const { thread } = protocols;
    this.protocols = protocols;
    this.#thread = thread;
    this.#after = after;
    const { cache, connections, memory } = thread;
    cache.enter();
    memory.stats[STAT.total_connections]! += 1;
    const kind = ConnectionKind.TCP;
    const owner = connections.open(kind, threadIndex, "tcp:127.0.0.1:1", "tcp:test", 2);
    cache.leave();
    assert(owner !== NO_OWNER, "the table of connections is full");
    this.#conversation = protocols.open(owner, {
      protocol: thread.settings.wireProtocol,
    });
  }

  /** Sends, and returns the immediate reply. */
  ask(text: string): string {
    this.feed(bytesOf(text));
    return this.takeAll();
  }

  /** Removes and returns what was received. */
  takeAll(): string {
    const received = this.#received;
    this.#received = "";
    return received;
  }

  feed(bytes: Uint8Array): void {
    this.#feed(bytes);
    this.#after();
  }

  #feed(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length && !this.#closed) {
      if (this.#conversation.state === ConversationState.WAITING) {
        this.#unread.push(bytes.slice(at));
        return;
      }
      const { input } = this.#thread;
      const count = Math.min(bytes.length - at, INPUT_BYTES - this.#pending.length);
      input.bytes.set(this.#pending, 0);
      input.bytes.set(bytes.subarray(at, at + count), this.#pending.length);
      at += count;
      this.#serve(this.#pending.length + count);
    }
  }

  /** Continues, as a transport does, when the store has ended the connection's wait. */
  goOn(): void {
    const pending = this.#pending;
    this.#pending = new Uint8Array(0);
    this.#thread.input.bytes.set(pending, 0);
    this.#serve(pending.length);
    for (const bytes of this.#unread.splice(0)) this.#feed(bytes);
  }

  /** Like `goOn`. Returns the reply. */
  resume(): string {
    this.goOn();
    return this.takeAll();
  }

  /** Has another thread serve the connection, which must be between two requests. */
  moveTo(protocols: ThreadProtocols): void {
    const { owner } = this;
    this.protocols = protocols;
    this.#thread = protocols.thread;
    this.#conversation = protocols.open(owner, {
      protocol: protocols.thread.settings.wireProtocol,
    });
  }

  /** The connection's number. */
  get owner(): ConnectionId {
    return this.#conversation.owner;
  }

  send(text: string): Promise<void> {
    this.feed(bytesOf(text));
    return Promise.resolve();
  }

  receive(_known: number): Promise<string> {
    return Promise.resolve(this.#received);
  }

  take(length: number): void {
    this.#received = this.#received.slice(length);
  }

  get closed(): boolean {
    return this.#closed;
  }

  isClosed(): Promise<boolean> {
    return Promise.resolve(this.#closed);
  }

  /** In the middle of a request. */
  get isBusy(): boolean {
    return this.#pending.length > 0 || !this.#conversation.idle;
  }

  /** Its request waits for something that others do. */
  get isWaiting(): boolean {
    return this.#conversation.state === ConversationState.WAITING;
  }

  /** As `Conversation` has it. */
  get unauthenticatedSinceSec(): number {
    return this.#conversation.unauthenticatedSinceSec;
  }

  /** Bytes the connection costs between two reads. */
  get pendingLength(): number {
    return this.#pending.length;
  }

  disconnect(): void {
    this.#closed = true;
    this.#conversation.end();
    held(this.#thread.cache, () => this.#thread.connections.close(this.#conversation.owner));
    this.#after();
  }

  /** Takes replies. The bytes are good during the call. */
  protected received(bytes: Uint8Array): void {
    this.#received += textOf(bytes);
  }

  #serve(end: number): void {
    const { input, reply } = this.#thread;
    let start = 0;
    do {
      reply.reset();
      const consumed = this.#conversation.feed(start, end);
      assert(start <= consumed && consumed <= end, "feed() consumes what it was given");
      start = consumed;
      this.received(reply.region.bytes.subarray(0, reply.length));
      if (this.#conversation.state === ConversationState.UNFINISHED) {
        // A transport serves other connections meanwhile, which use the same regions.
        const rest = input.bytes.slice(start, end);
        input.bytes.fill(0x21);
        reply.region.bytes.fill(0x21);
        this.between();
        input.bytes.set(rest, 0);
        end -= start;
        start = 0;
      }
    } while (this.#conversation.state === ConversationState.UNFINISHED);
    this.#pending = input.bytes.slice(start, end);
    input.bytes.fill(0x21, 0, end);
    if (this.#conversation.state === ConversationState.CLOSING) {
      this.disconnect();
      this.#pending = new Uint8Array(0);
    }
    assert(
      this.#pending.length <= PENDING_BYTES_MAX ||
        this.#conversation.state === ConversationState.WAITING,
      "feed() leaves at most PENDING_BYTES_MAX",
    );
  }
}
