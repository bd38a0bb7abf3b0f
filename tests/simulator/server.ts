import { configureSync } from "@logtape/logtape";
import { readCommand } from "../../lib/cli/command.ts";
import { type ServerOptions, withRowPrefixes } from "../../lib/cli/options.ts";
import type { Database } from "../../lib/databases/base/backend.ts";
import { cacheServices } from "../../lib/net/cache_service.ts";
import type { ServedConversation, Service } from "../../lib/net/service.ts";
import type { BoundTransport, TransportEvent } from "../../lib/net/transport.ts";
import { Lifecycle } from "../../lib/process/lifecycle.ts";
import { reasonOf } from "../../lib/process/reason.ts";
import type { RowsMessage, RowsStart } from "../../lib/rows/messages.ts";
import { NodeThread } from "../../lib/rows/nodes/node_thread.ts";
import { OriginThread } from "../../lib/rows/origin/origin_thread.ts";
import { toNodeOptions, toRowsOptions, viewPrefixes } from "../../lib/rows/row_arguments.ts";
import { makeStore } from "../../lib/server/shared_store.ts";
import { Ticker } from "../../lib/server/ticker.ts";
import { Snapshot } from "../../lib/snapshot/snapshot.ts";
import { ConversationState } from "../../protocol/conversation.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import { concatBytes } from "../../store/base/bytes.ts";
import type { Cache } from "../../store/cache.ts";
import { checkStore } from "../../store/check/check.ts";
import { ConnectionKind } from "../../store/connections.ts";
import { INPUT_BYTES } from "../../store/limits.ts";
import { noteStore } from "../support/collected_stores.ts";
import { joinThread } from "../support/threads.ts";
import { JournalThread } from "./journal.ts";
import type { Machine } from "./machine.ts";
import { ModelBackend } from "./model_backend.ts";
import type { End, Network, Receiver } from "./network.ts";
import type { Process, World } from "./world.ts";

export const PORT = 11211;
/** Little memory: a run starts many servers. */
const OPTIONS = ["-m", "2", "-c", "64", "-t", "1", "-I", "16k", "-o", "memlimit_max=1"];
/** Longest time until the main thread has ended a deposed process: of most, and of a share of them. */
const END_MS = 100;
const SLOW_END_MS = 2000;
const SLOW_ENDS = 0.3;
/** The serving thread's number. */
const SERVING = 0;
/** Servers between two forced collections. */
const STORES_PER_COLLECTION = 16;
const FOLDER = /\S*leased-simulator\S*/g;
const LISTENER = "tcp:sim";

/** Has the transcript keep what processes log by themselves. */
function noteLog(world: World): void {
  configureSync({
    reset: true,
    sinks: {
      transcript: ({ message }) => {
        world.note(world.current.name, message.join("").replaceAll(FOLDER, "its file"));
      },
    },
    loggers: [
      { category: "leased", sinks: ["transcript"], lowestLevel: "trace" },
      { category: ["logtape", "meta"], sinks: [], lowestLevel: "error" },
    ],
  });
}

/** A server process: the real store, conversations and database thread, with sockets of the simulated network. */
export class Server {
  readonly process: Process;
  readonly thread: ThreadContext;
  /** Whether it takes connections. */
  isServing = false;
  readonly #world: World;
  readonly #network: Network;
  readonly #options: ServerOptions;
  readonly #service: Service;
  readonly #lifecycleShared = Lifecycle.createShared(1);
  readonly #lifecycle = new Lifecycle(this.#lifecycleShared);
  readonly #connections = new Map<number, ServedConnection>();
  readonly #ended: () => void;
  readonly #snapshot: Snapshot | null;
  /** The view of the store that the main thread has. */
  readonly #mainCache: Cache;
  readonly #ticker: Ticker;
  #journal: JournalThread | null = null;

  /**
   * @param options As on the command line.
   * @param machine Its disks; a snapshot on them is loaded, once.
   * @param ended Called when the process has ended by itself.
   * @throws SnapshotError
   */
  constructor(
    world: World,
    network: Network,
    process: Process,
    options: readonly string[],
    machine: Machine,
    ended: () => void,
  ) {
    this.#world = world;
    this.#network = network;
    this.process = process;
    this.#ended = ended;
    noteStore(STORES_PER_COLLECTION);
    const facts = {
      version: "0.0.0",
      runtime: "simulator",
      pid: 1,
      unixMs: process.unixMs,
      random: world.random(),
      hashSeed: Int32Array.of(world.choose(2 ** 31), world.choose(2 ** 31)),
      keepsMemoryOrder: true,
      processors: 1,
    };
    const command = readCommand([...OPTIONS, ...options], facts);
    if (command.kind !== "run") throw new Error(`cannot start with ${options.join(" ")}`);
    this.#options = withRowPrefixes(command.options, viewPrefixes(command.options.views));
    const wake = (index: number): void => this.#lifecycle.wake(index);
    const transport = { listens: [], wake } as unknown as BoundTransport;
    const snapshot = this.#options.snapshotPath === ""
      ? null
      : new Snapshot(this.#options, () => {});
    this.#snapshot = snapshot;
    const { shared, cache } = makeStore(this.#options, this.#rowsOptions, transport, snapshot);
    this.#mainCache = cache;
    noteLog(world);
    this.thread = joinThread({ shared, settings: this.#options }, SERVING);
    const { rows } = this.thread.cache;
    if (rows?.right.isTimed) rows.right.nowMs = () => performance.now();
    this.thread.cache.onReady = wake;
    this.#service = cacheServices(this.thread, SERVING, () => {}).auto;
    this.#ticker = new Ticker(cache, performance.now() - (snapshot?.clockMs ?? 0));
    if (this.#options.stateDir === "") return;
    const report = (event: TransportEvent): void => this.#log(event);
    this.#journal = new JournalThread(world, process, shared.memory, machine.disk, wake, report);
  }

  /** Ends the process as a signal does, with a snapshot of its store. It may be killed before. */
  async shutDown(): Promise<void> {
    this.isServing = false;
    this.#network.close(this.process, this.#address);
    for (const connection of [...this.#connections.values()]) connection.broken();
    this.#ticker.stop();
    this.#journal?.stop();
    await this.#snapshot?.save(this.#mainCache, this.#options.version, null, []);
    this.#snapshot?.close();
  }

  get #address(): string {
    const { name } = this.process;
    return `${name.slice(0, name.indexOf("#"))}:${PORT}`;
  }

  get #rowsOptions(): RowsStart["options"] | null {
    const options = this.#options;
    if (options.origin.length > 0) return toNodeOptions(options, []);
    return options.db === "" ? null : toRowsOptions(options, []);
  }

  /**
   * Loads the snapshot, starts the database thread, then takes connections. Call it as the process.
   *
   * @throws SnapshotError
   */
  async start(): Promise<void> {
    await this.#snapshot?.load(this.#mainCache, []);
    void this.#journal?.run();
    this.#ticker.start();
    this.#snapshot?.retire();
    const options = this.#rowsOptions;
    if (options !== null && !await this.#startRows(options)) return;
    this.isServing = true;
    this.#world.note(this.process.name, "serves");
    this.#network.listen(this.process, this.#address, (end) => this.#accept(end));
    await this.#resumeReady();
  }

  /** @returns Whether rows are served. */
  async #startRows(options: RowsStart["options"]): Promise<boolean> {
    const start: RowsStart = {
      options,
      shared: this.thread.memory.shared,
      lifecycle: this.#lifecycleShared,
      member: { transport: "portable", workerData: null },
      savedMark: null,
      savesRows: false,
    };
    const say = (message: RowsMessage): void => this.#hear(message);
    try {
      const thread = "origins" in options
        ? await NodeThread.open(start, options, say)
        : await OriginThread.open(start, options, say, databaseOf(options.database));
      void thread.run();
      return true;
    } catch (error) {
      this.#note(`does not start: ${reasonOf(error)}`);
      this.#world.after(0, this.#world.nobody, this.#ended);
      return false;
    }
  }

  #hear(message: RowsMessage): void {
    if (message.kind === "event") this.#log(message.event);
    else if (message.kind === "deposed") {
      this.#world.note(this.process.name, `is deposed: ${message.reason}`);
      const { random } = this.#world;
      const endMs = random() * (random() < SLOW_ENDS ? SLOW_END_MS : END_MS);
      this.#world.after(endMs, this.#world.nobody, this.#ended);
    }
  }

  #log({ event, message }: TransportEvent): void {
    this.#world.met.add(`event ${event}`);
    if (event === "stale_value" || event === "phantom_value") {
      this.#world.wrong.push(`the meter of ${this.process.name}: ${message}`);
    }
    this.#note(message);
  }

  /** The name of the folder is another one in each run. */
  #note(text: string): void {
    this.#world.note(this.process.name, text.replaceAll(FOLDER, "its file"));
  }

  /** Resumes connections that need not wait any longer, as transports do. */
  async #resumeReady(): Promise<void> {
    for (;;) {
      const wakeCount = this.#lifecycle.wakeCount(SERVING);
      this.thread.takeReady(SERVING, (owner) => this.#connections.get(owner)?.resume());
      await this.#lifecycle.woken(SERVING, wakeCount);
    }
  }

  #accept(end: End): Receiver {
    const conversation = this.#service.open(ConnectionKind.TCP, `tcp:${end.other.host}`, LISTENER);
    if (conversation === null) {
      end.send(this.#service.refusal);
      end.close();
      return { received: () => {}, ended: () => {}, broken: () => {} };
    }
    const connection = new ServedConnection(this.thread, this.#service, conversation, end, () => {
      this.#connections.delete(connection.id);
    });
    this.#connections.set(connection.id, connection);
    return connection;
  }

  /** Checks the store's memory. @throws What is wrong with it. */
  check(): void {
    checkStore(this.thread.memory);
  }
}

/** Returns what opens the database of an origin; undefined: the server itself. */
function databaseOf({ kind }: Database): Parameters<typeof OriginThread.open>[3] {
  if (kind === "sqlite") return undefined;
  return ({ dbTimeoutMs, dbConnections }) =>
    Promise.resolve(new ModelBackend(dbTimeoutMs, dbConnections));
}

/** A connection of a server: feeds its conversation, and sends the replies. */
class ServedConnection implements Receiver {
  readonly id: number;
  readonly #thread: ThreadContext;
  readonly #service: Service;
  readonly #conversation: ServedConversation;
  readonly #end: End;
  readonly #closed: () => void;
  /** Bytes that the conversation left unconsumed. */
  #pending: Uint8Array = new Uint8Array(0);
  /** Those that came while it waited: transports pass them on when it wants input. */
  #early: Uint8Array = new Uint8Array(0);
  #isPeerEnded = false;
  #isClosed = false;

  constructor(
    thread: ThreadContext,
    service: Service,
    conversation: ServedConversation,
    end: End,
    closed: () => void,
  ) {
    this.#thread = thread;
    this.#service = service;
    this.#conversation = conversation;
    this.#end = end;
    this.#closed = closed;
    this.id = conversation.owner;
  }

  received(bytes: Uint8Array): void {
    if (this.#isWaiting) {
      this.#early = concatBytes([this.#early, bytes]);
      return;
    }
    this.#pending = this.#pending.length === 0 ? bytes : concatBytes([this.#pending, bytes]);
    this.#serve();
  }

  ended(): void {
    this.#isPeerEnded = true;
    if (!this.#isWaiting || !this.#conversation.awaitsServer) this.#close("normal");
  }

  broken(): void {
    this.#close("error");
  }

  /** Goes on when the store has ended the conversation's wait. */
  resume(): void {
    if (!this.#isClosed) this.#serve();
  }

  get #isWaiting(): boolean {
    return this.#conversation.state === ConversationState.WAITING;
  }

  #serve(): void {
    const { input, reply, cache } = this.#thread;
    const conversation = this.#conversation;
    let isMore = true;
    while (isMore && !this.#isClosed) {
      const fed = this.#pending.subarray(0, INPUT_BYTES);
      const rest = this.#pending.subarray(fed.length);
      input.bytes.set(fed);
      reply.reset();
      const consumed = conversation.feed(0, fed.length);
      cache.applyHits();
      const left = input.bytes.slice(consumed, fed.length);
      this.#pending = rest.length === 0 ? left : concatBytes([left, rest]);
      this.#end.send(reply.region.bytes.subarray(0, reply.length));
      const { state } = conversation;
      if (state === ConversationState.CLOSING) return this.#close(conversation.closeReason);
      isMore = state === ConversationState.UNFINISHED ||
        state === ConversationState.NEEDS_INPUT && consumed > 0 && rest.length > 0;
    }
    if (this.#isWaiting || this.#isClosed) return;
    const early = this.#early;
    if (early.length > 0) {
      this.#early = new Uint8Array(0);
      return this.received(early);
    }
    if (this.#isPeerEnded) this.#close("normal");
  }

  #close(reason: ServedConversation["closeReason"]): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#conversation.end();
    this.#end.close();
    this.#service.close(this.id as Parameters<Service["close"]>[0], reason);
    this.#closed();
  }
}
