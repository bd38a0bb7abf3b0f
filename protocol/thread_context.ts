import { ByteRegion } from "../store/base/bytes.ts";
import type { Cache, HeldCache, TokenView } from "../store/cache.ts";
import { openCache } from "../store/row_cache.ts";
import { Operation } from "../store/operation.ts";
import { type ConnectionId, ConnectionTable, NO_OWNER } from "../store/connections.ts";
import { INPUT_BYTES, REPLY_BYTES } from "../store/limits.ts";
import { Memory, type SharedMemory, threadRowCount } from "../store/setup.ts";
import { createVerdicts, type Credentials, PasswordChecks } from "./auth/password_checks.ts";
import { ReplyBuffer } from "./reply/reply_buffer.ts";
import { Numbers } from "./numbers.ts";
import { setRowFailure } from "./reply/replies.ts";
import { Request } from "./request.ts";
import { OpCounts } from "./counts/op_counts.ts";
import { RequestTimes } from "./counts/request_times.ts";
import type { Settings } from "./settings.ts";
import { StoreHold } from "./store_hold.ts";
import { PrefixTable } from "./prefix_counts.ts";
import { Tunables } from "./tunables.ts";
import { WORK, WorkBudget } from "./work_budget.ts";

/** Calls from the protocols to the process. The store's mutex is held: they must return at once. */
export interface ServerHooks {
  /**
   * The `shutdown` command: the process shall end. The connection that asked is closed without a reply.
   *
   * @param graceful Batches under way are answered first.
   */
  shutdown(graceful: boolean): void;
  /** Facts of the process, for `stats`. */
  processState(): ProcessState;
  /**
   * Reloads the certificates. The store's mutex is not held.
   *
   * @returns "" when done; otherwise the error's text. Absent: there are none.
   */
  refreshCertificates?(): string;
  /** An operator dropped update tokens: the process logs it. */
  tokensDropped(drop: TokenDrop): void;
  /** Begins to check a password. The verdict comes by `Verdicts`. */
  authenticate(owner: ConnectionId, credentials: Credentials): void;
}

/** An update token that an operator dropped. */
export interface TokenDrop {
  /** Null: `count` tokens of all keys. */
  readonly token: TokenView | null;
  readonly count: number;
  /** The peer of the operator's connection. */
  readonly by: string;
}

/** CPU time and state of the process. */
export interface ProcessState {
  /** Processor time of the whole process, in microseconds. */
  readonly userMicroseconds: number;
  readonly systemMicroseconds: number;
  /** Whether connections are accepted now. */
  readonly accepting: boolean;
  /** Seconds since the certificates of TLS were loaded. Absent: there are none. */
  readonly certificateAgeSec?: number | undefined;
}

/** Memory that all threads share: plain, so that it can be posted to workers. */
export interface SharedState {
  readonly memory: SharedMemory;
  readonly tunables: SharedArrayBuffer;
  readonly prefixes: SharedArrayBuffer;
  readonly ops: SharedArrayBuffer;
  /** Of `RequestTimes`. */
  readonly times: SharedArrayBuffer;
  /** Of `PasswordChecks`; null: no authentication. */
  readonly verdicts: SharedArrayBuffer | null;
}

/** Makes what the protocols share, for a store that has been made. */
export function createSharedState(memory: SharedMemory, settings: Settings): SharedState {
  return {
    memory,
    tunables: Tunables.createShared(settings),
    prefixes: PrefixTable.createShared(),
    ops: OpCounts.createShared(threadRowCount(memory.options)),
    times: RequestTimes.createShared(threadRowCount(memory.options)),
    verdicts: settings.authFile === "" ? null : createVerdicts(memory.options.connectionsMax),
  };
}

/** Room behind the input for a decoded key, or a peer's name. */
const KEY_SCRATCH_BYTES = 256;
/** Connections that one hold of the mutex takes from the list of those whose waiting is over. */
const READY_MAX = 256;

/**
 * The state with which one thread serves its connections. There is one input and one reply region a thread, so
 * a connection between two requests costs no buffer.
 */
export class ThreadContext extends StoreHold {
  readonly memory: Memory;
  readonly cache: Cache;
  readonly connections: ConnectionTable;
  readonly tunables: Tunables;
  readonly prefixes: PrefixTable;
  readonly times: RequestTimes;
  readonly ops: OpCounts;
  readonly settings: Settings;
  readonly hooks: ServerHooks;
  /** Received bytes: INPUT_BYTES. Behind them, room for a decoded key, or a peer's name. */
  readonly input: ByteRegion;
  /** Replies to be sent: REPLY_BYTES. */
  readonly reply: ReplyBuffer;
  /** Overwritten by every command. */
  readonly request: Request;
  readonly operation: Operation;
  readonly numbers: Numbers;
  /** Null: no authentication. */
  readonly auth: PasswordChecks | null;
  /** Of the connection that is being served. */
  readonly work: WorkBudget;
  /** The connections of one turn of `takeReady`. */
  readonly #ready = new Int32Array(READY_MAX);

  /** @param threadIndex 0-based number of the thread. */
  constructor(shared: SharedState, settings: Settings, hooks: ServerHooks, threadIndex = 0) {
    super();
    this.memory = new Memory(shared.memory, threadIndex);
    this.cache = openCache(this.memory);
    if (this.cache.parking !== null) {
      this.cache.parking.thread = threadIndex;
      this.cache.parking.onFailure = setRowFailure;
    }
    this.connections = new ConnectionTable(shared.memory.connections);
    this.tunables = new Tunables(shared.tunables);
    this.work = new WorkBudget(settings.maxReqsPerEvent * WORK.REQUEST);
    this.prefixes = new PrefixTable(shared.prefixes, settings.statsDelimiter, this.work);
    this.times = new RequestTimes(shared.times, threadIndex);
    this.ops = new OpCounts(shared.ops, threadIndex, this.times);
    this.auth = shared.verdicts === null ? null : new PasswordChecks(
      shared.verdicts,
      this.connections,
      (owner, credentials) => hooks.authenticate(owner, credentials),
    );
    this.settings = settings;
    this.hooks = hooks;
    this.input = new ByteRegion(new ArrayBuffer(INPUT_BYTES + KEY_SCRATCH_BYTES));
    this.reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(REPLY_BYTES)));
    this.request = new Request();
    this.operation = new Operation(this.input);
    this.numbers = new Numbers();
  }

  /** Whether the last operation waits for the database: its request is executed once more, and what it replied goes. */
  get hasParked(): boolean {
    const { parking } = this.cache;
    return parking !== null && parking.hasParked;
  }

  /** Whether reads may go without the mutex now. */
  get mayReadOptimistically(): boolean {
    const { parking } = this.cache;
    // Answers of the database thread come first, and a row may be barred.
    if (parking !== null && (parking.session !== null || !parking.mayServe)) return false;
    return this.cache.optimistic.isAllowed && !this.tunables.detailEnabled;
  }

  /**
   * The connections of a thread whose waiting is over, for the transport to `feed`. To be asked
   * whenever `cache.onReady` named the thread.
   *
   * @param visit Called with each, without the mutex.
   */
  takeReady(threadIndex: number, visit: (connection: ConnectionId) => void): void {
    const { cache } = this;
    const ready = this.#ready;
    let count;
    do {
      count = 0;
      cache.enter();
      for (; count < ready.length; count++) {
        const owner = cache.takeReady(threadIndex);
        if (owner === NO_OWNER) break;
        ready[count] = owner;
      }
      cache.leave();
      for (let index = 0; index < count; index++) visit(ready[index] as ConnectionId);
    } while (count === ready.length);
    this.auth?.takeReady(visit);
  }
}

/** The thread of parsers, tasks and reads: they may take the mutex and yield it, but not end a batch. */
export type HoldingThread = Omit<
  ThreadContext,
  "beginBatch" | "endBatch" | "mayReadOptimistically" | "takeReady"
>;

/** The thread of handlers: their caller has taken the mutex. */
export type RequestThread =
  & Omit<
    HoldingThread,
    "cache" | "hold" | "isHolding" | "releaseForReads" | "withoutMutex" | "yieldMutex"
  >
  & { readonly cache: HeldCache };

/** The thread of statistics. */
export type StatThread = Pick<
  RequestThread,
  | "cache"
  | "connections"
  | "hooks"
  | "memory"
  | "ops"
  | "prefixes"
  | "settings"
  | "times"
  | "tunables"
  | "work"
>;
