import type { Stat } from "../../protocol/stats/entry.ts";
import type { TransportEvent } from "../net/transport.ts";
import type { NodeState } from "./flows/node_list.ts";
import type { RowsCommand, RowsMessage, RowsStart } from "./messages.ts";

/** The database, or a file of the options, cannot be used. */
export class DatabaseThreadError extends Error {
  override readonly name = "DatabaseThreadError";
  /** Whether the command line, or a file that it names, is wrong. */
  readonly isUsage: boolean;

  constructor(message: string, isUsage: boolean) {
    super(message);
    this.isUsage = isUsage;
  }
}

/** Events of the database thread. */
export interface DatabaseThreadEvents {
  event(event: TransportEvent): void;
  /** Another server has taken the database over: this one must serve no row any more. */
  deposed(reason: string): void;
  died(reason: string): void;
}

type State = RowsMessage & { readonly kind: "state" };

/** The main thread's side of the thread that speaks to the database. */
export class DatabaseThread {
  readonly #worker: Worker;
  readonly #ended = Promise.withResolvers<string>();
  #state: State = { kind: "state", stats: [], problem: null, nodes: [], tokens: [] };

  private constructor(worker: Worker) {
    this.#worker = worker;
  }

  /**
   * Starts the thread, which takes the database over.
   *
   * @returns A promise that resolves when requests are served.
   * @throws DatabaseThreadError
   */
  static async start(start: RowsStart, events: DatabaseThreadEvents): Promise<DatabaseThread> {
    const worker = new Worker(new URL("./database_worker.ts", import.meta.url), {
      type: "module",
      name: "leased-database",
    });
    const origin = new DatabaseThread(worker);
    const ready = Promise.withResolvers<void>();
    worker.onmessage = ({ data }: MessageEvent<RowsMessage>) => {
      switch (data.kind) {
        case "ready":
          return ready.resolve();
        case "refused":
          worker.terminate();
          return ready.reject(new DatabaseThreadError(data.reason, data.isUsage));
        case "state":
          origin.#state = data;
          return;
        case "deposed":
          return events.deposed(data.reason);
        case "died":
          return events.died(data.reason);
        case "ended":
          return origin.#ended.resolve(data.mark);
        case "event":
          return events.event(data.event);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      events.died(event.message);
    };
    origin.#send({ kind: "start", start });
    await ready.promise;
    return origin;
  }

  /** Why `/health` is not well; null: it is. */
  get problem(): string | null {
    return this.#state.problem;
  }

  /** The statistics of `stats rows`, not older than about a second. */
  get stats(): readonly Stat[] {
    return this.#state.stats;
  }

  /** The nodes, not older than `stats`. */
  get nodes(): readonly NodeState[] {
    return this.#state.nodes;
  }

  /** The oldest update tokens, not older than `stats`. */
  get tokens(): State["tokens"] {
    return this.#state.tokens;
  }

  /** Reads the file of caches again. */
  reloadFiles(): void {
    this.#send({ kind: "reload" });
  }

  /**
   * Answers what has been taken, and ends the thread. Call it when no thread serves connections any more.
   *
   * @returns The mark for rows that are saved; "": they must not be.
   */
  async stop(): Promise<string> {
    this.#send({ kind: "stop" });
    return await this.#ended.promise;
  }

  #send(command: RowsCommand): void {
    this.#worker.postMessage(command);
  }
}
