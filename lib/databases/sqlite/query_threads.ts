import type { View } from "../views/view.ts";
import type { QueryCommand, QueryMessage } from "./query_worker.ts";
import type { QueryAnswer, ViewQuery } from "./view_query.ts";

/** Threads that execute queries at the same time. */
const THREADS_MAX = 2;
/** Threads whose queries have not ended in time: SQLite cannot be interrupted here. */
const ABANDONED_MAX = 4;
/** Longest time until a thread runs, in milliseconds: no query is slow because a busy machine starts threads slowly. */
const START_MS = 30_000;

/** A query that waits for its result. */
interface Request {
  readonly view: View;
  readonly query: ViewQuery;
  readonly resolve: (answer: QueryAnswer | string) => void;
  readonly reject: (error: Error) => void;
}

/** What a thread needs of its worker. */
export type QueryWorker = Pick<Worker, "postMessage" | "terminate" | "onmessage" | "onerror">;

/** A thread, and the query that it executes. */
interface Thread {
  readonly worker: QueryWorker;
  /** Whether it has said so: the time of a query counts from there. */
  runs: boolean;
  request: Request | null;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Executes the queries of views beside the thread that writes rows, so that a slow one delays no write. A view has one
 * query under way at most, so it does not take all threads. When a query has not ended in time, its thread is left to
 * it, and the view is answered with an error until the query ends.
 */
export class QueryThreads {
  readonly #path: string;
  readonly #timeoutMs: number;
  readonly #startWorker: () => QueryWorker;
  readonly #threads = new Set<Thread>();
  readonly #abandoned = new Map<Thread, View>();
  #waiting: Request[] = [];
  #isClosing = false;

  /** @param timeoutMs Longest time of a query. @param startWorker Starts the module query_worker.ts. */
  constructor(path: string, timeoutMs: number, startWorker = startQueryWorker) {
    this.#path = path;
    this.#timeoutMs = timeoutMs;
    this.#startWorker = startWorker;
    this.#start();
  }

  /** The views whose queries have not ended in time. */
  get slow(): ReadonlySet<View> {
    return new Set(this.#abandoned.values());
  }

  /** Why a view is not read; null: it is. */
  problemOf(view: View): string | null {
    if (this.slow.has(view)) {
      return `its query has been running for more than ${this.#timeoutMs} ms (--db-timeout)`;
    }
    if (this.#threads.size > 0 || this.#abandoned.size < ABANDONED_MAX) return null;
    const names = [...this.slow].map(({ name }) => name).join(", ");
    return `slow queries of other views have not ended: ${names}`;
  }

  /** @returns A text: why there is no result. @throws Why the file cannot be read. */
  execute(view: View, query: ViewQuery): Promise<QueryAnswer | string> {
    const { promise, resolve, reject } = Promise.withResolvers<QueryAnswer | string>();
    this.#waiting.push({ view, query, resolve, reject });
    this.#assign();
    return promise;
  }

  /** Queries that wait are executed first. */
  close(): void {
    this.#isClosing = true;
    this.#assign();
  }

  #start(): Thread {
    const worker = this.#startWorker();
    const thread: Thread = { worker, runs: false, request: null, timer: undefined };
    worker.onmessage = ({ data }: MessageEvent<QueryMessage>) => {
      if (data !== null) return this.#end(thread, data);
      thread.runs = true;
      if (thread.request !== null) this.#limit(thread);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#lose(thread, event.message);
    };
    this.#threads.add(thread);
    return thread;
  }

  /** Gives waiting queries to idle threads. */
  #assign(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const request of waiting) {
      const problem = this.problemOf(request.view);
      if (problem !== null) request.resolve(problem);
      else if (!this.#begin(request)) this.#waiting.push(request);
    }
    if (!this.#isClosing || this.#waiting.length > 0) return;
    for (const thread of this.#threads) if (thread.request === null) this.#stop(thread);
  }

  /** @returns False: it has to wait. */
  #begin(request: Request): boolean {
    const threads = [...this.#threads];
    if (threads.some((each) => each.request?.view === request.view)) return false;
    const isFull = threads.length >= THREADS_MAX || this.#abandoned.size >= ABANDONED_MAX;
    const thread = threads.find((each) => each.request === null) ?? (isFull ? null : this.#start());
    if (thread === null) return false;
    thread.request = request;
    this.#limit(thread);
    const command: QueryCommand = { path: this.#path, query: request.query };
    thread.worker.postMessage(command);
    return true;
  }

  #limit(thread: Thread): void {
    clearTimeout(thread.timer);
    const ms = thread.runs ? this.#timeoutMs : Math.max(START_MS, this.#timeoutMs);
    thread.timer = setTimeout(() => this.#abandon(thread), ms);
  }

  #end(thread: Thread, message: QueryAnswer | string): void {
    if (this.#abandoned.delete(thread)) return thread.worker.terminate();
    const { request } = thread;
    this.#release(thread);
    if (typeof message === "string") {
      this.#stop(thread);
      request!.reject(new Error(message));
    } else request!.resolve(message);
    this.#assign();
  }

  #abandon(thread: Thread): void {
    const { view, resolve } = thread.request!;
    this.#release(thread);
    this.#threads.delete(thread);
    this.#abandoned.set(thread, view);
    resolve(this.problemOf(view)!);
    this.#assign();
  }

  /** The thread has failed. */
  #lose(thread: Thread, reason: string): void {
    const { request } = thread;
    this.#abandoned.delete(thread);
    this.#release(thread);
    this.#stop(thread);
    request?.reject(new Error(`a thread of queries failed: ${reason}`));
    this.#assign();
  }

  #release(thread: Thread): void {
    clearTimeout(thread.timer);
    thread.request = null;
  }

  #stop(thread: Thread): void {
    this.#threads.delete(thread);
    thread.worker.terminate();
  }
}

function startQueryWorker(): QueryWorker {
  return new Worker(new URL("./query_worker.ts", import.meta.url), {
    type: "module",
    name: "leased-query",
  });
}
