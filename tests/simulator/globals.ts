import { DatabaseSync } from "node:sqlite";
import type { QueryWorker } from "../../lib/databases/sqlite/query_threads.ts";
import type { QueryCommand, QueryMessage } from "../../lib/databases/sqlite/query_worker.ts";
import { ViewQueries } from "../../lib/databases/sqlite/view_query.ts";
import { reasonOf } from "../../lib/process/reason.ts";
import { VIRTUAL_CONNECTIONS } from "./log/virtual_session.ts";
import type { Network } from "./network.ts";
import { type FileFunctions, withVirtualDisks } from "./machine.ts";
import type { Event, Process, World } from "./world.ts";

/** Longest time until a thread that was woken runs, in milliseconds. */
const WAKE_MS = 0.05;
/** Longest time until a query reads, and then until its result is there: of most, and of a share of them. */
const QUERY_MS = 0.5;
const SLOW_QUERY_MS = 1000;
const SLOW_QUERIES = 0.005;

interface Waiter {
  readonly index: number;
  readonly process: Process;
  readonly resolve: (value: "ok" | "timed-out") => void;
  timer: Event | undefined;
}

type Words = Int32Array<SharedArrayBuffer>;

/** The thread of query_worker.ts, which reads the file at one instant, and answers at a later one. */
class VirtualQueryWorker implements QueryWorker {
  onmessage: QueryWorker["onmessage"] = null;
  onerror: QueryWorker["onerror"] = null;
  readonly #world: World;
  #queries: ViewQueries | undefined;
  #isEnded = false;

  constructor(world: World) {
    this.#world = world;
    world.after(this.#drawMs(), world.current, () => this.#say(null));
  }

  postMessage({ path, query }: QueryCommand): void {
    const world = this.#world;
    const process = world.current;
    world.after(this.#drawMs(), process, () => {
      if (this.#isEnded) return;
      let data: QueryMessage;
      try {
        this.#queries ??= new ViewQueries(path);
        data = this.#queries.execute(query);
      } catch (error) {
        data = reasonOf(error);
      }
      world.after(this.#drawMs(), process, () => this.#say(data));
    });
  }

  #say(data: QueryMessage): void {
    if (this.#isEnded) return;
    this.onmessage?.call(this as unknown as Worker, new MessageEvent("message", { data }));
  }

  terminate(): void {
    this.#isEnded = true;
  }

  #drawMs(): number {
    const { random } = this.#world;
    return random() * (random() < SLOW_QUERIES ? SLOW_QUERY_MS : QUERY_MS);
  }
}

/** What replaces globals of the runtime while a world runs. */
class VirtualGlobals {
  readonly #world: World;
  readonly #network: Network;
  readonly #waiters = new WeakMap<SharedArrayBuffer, Waiter[]>();
  readonly #databases = new WeakSet<DatabaseSync>();
  /** Files that have locks, by path. */
  readonly #locked = new Map<string, Deno.FsFile>();

  constructor(world: World, network: Network) {
    this.#world = world;
    this.#network = network;
  }

  readonly setTimeout = (
    act: (...values: unknown[]) => void,
    ms = 0,
    ...values: unknown[]
  ): Event => {
    const { current } = this.#world;
    return this.#world.timer(Math.max(1, ms), current, () => act(...values));
  };

  readonly clearTimeout = (event?: Event): void => {
    if (event !== undefined) event.isCancelled = true;
  };

  readonly setInterval = (act: () => void, ms = 0): Event => {
    const { current } = this.#world;
    const interval = Math.max(1, ms);
    const event = this.#world.timer(interval, current, () => {});
    const again = (): void => {
      act();
      if (event.isCancelled) return;
      this.#world.timer(interval, current, () => {
        if (!event.isCancelled) again();
      });
    };
    event.act = again;
    return event;
  };

  readonly now = (): number => this.#world.look();
  readonly unixNow = (): number => this.#world.current.unixMs;
  readonly random = (): number => this.#world.random();

  readonly getRandomValues = <Values extends Uint8Array | Int32Array | Uint32Array>(
    values: Values,
  ): Values => {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    for (let at = 0; at < bytes.length; at++) bytes[at] = this.#world.choose(256);
    return values;
  };

  readonly randomUUID = (): string => {
    const digits = this.getRandomValues(new Uint8Array(16)).toHex();
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  };

  readonly waitAsync = (words: Words, index: number, value: number, ms = Infinity): unknown => {
    if (Atomics.load(words, index) !== value) return { async: false, value: "not-equal" };
    const { promise, resolve } = Promise.withResolvers<"ok" | "timed-out">();
    const { buffer } = words;
    const place = words.byteOffset / 4 + index;
    const waiter: Waiter = {
      index: place,
      process: this.#world.current,
      resolve,
      timer: undefined,
    };
    const waiters = this.#waiters.get(buffer) ?? [];
    if (waiters.length === 0) this.#waiters.set(buffer, waiters);
    waiters.push(waiter);
    if (ms !== Infinity) {
      waiter.timer = this.#world.timer(ms, waiter.process, () => {
        waiters.splice(waiters.indexOf(waiter), 1);
        resolve("timed-out");
      });
    }
    return { async: true, value: promise };
  };

  /** One thread would wait for ever. Only a mutex is waited for so, which code that has failed still holds. */
  readonly wait = (): never => {
    const text = `${this.#world.current.name}: the mutex is held by a thread that has failed`;
    this.#world.faults.push(text);
    throw new Error(text);
  };

  readonly notify = (words: Words, index: number, count = Infinity): number => {
    const waiters = this.#waiters.get(words.buffer);
    if (waiters === undefined || waiters.length === 0) return 0;
    const place = words.byteOffset / 4 + index;
    let woken = 0;
    for (let at = 0; at < waiters.length && woken < count;) {
      const waiter = waiters[at]!;
      if (waiter.index !== place) {
        at++;
        continue;
      }
      waiters.splice(at, 1);
      woken++;
      if (waiter.timer !== undefined) waiter.timer.isCancelled = true;
      this.#world.after(WAKE_MS * this.#world.random(), waiter.process, () => waiter.resolve("ok"));
    }
    return woken;
  };

  readonly connect = (
    options: Deno.ConnectOptions & { signal?: AbortSignal },
  ): Promise<unknown> => {
    const { hostname = "", port, signal } = options;
    return this.#network.connectAsRuntime(this.#world.current, hostname, port, signal);
  };

  /** The only threads that simulated code starts. */
  readonly startWorker = (url: URL): QueryWorker => {
    if (!url.pathname.endsWith("/query_worker.ts")) throw new Error(`a thread of ${url}`);
    return new VirtualQueryWorker(this.#world);
  };

  /** Files whose descriptors the kernel closes with the process. */
  openedBy<Opened extends { close(): void }>(opened: Opened): Opened {
    this.#world.current.atEnd.add(() => {
      try {
        opened.close();
      } catch {
        // It is closed already.
      }
    });
    return opened;
  }

  /**
   * Has the locks on a real file be those of the run. The kernel's outlive a file that is closed while another thread
   * starts a program: until that runs, it has a copy of the descriptor.
   */
  withLocks(path: string, file: Deno.FsFile): Deno.FsFile {
    const locked = this.#locked;
    const unlock = (): void => {
      if (locked.get(path) === file) locked.delete(path);
    };
    const { close } = file;
    return Object.assign(file, {
      tryLockSync: (): boolean => {
        if (!locked.has(path)) locked.set(path, file);
        return locked.get(path) === file;
      },
      unlockSync: unlock,
      close: (): void => {
        unlock();
        close.call(file);
      },
    });
  }

  noteDatabase(database: DatabaseSync): void {
    if (this.#databases.has(database)) return;
    this.#databases.add(database);
    this.openedBy(database);
  }
}

/**
 * Replaces clocks, timers, chance and sockets of the runtime while `body` runs, which must not wait for anything real:
 * they are those of the process whose code runs then. So the code of the server is what it is in production.
 */
export function withVirtualGlobals<Result>(
  world: World,
  network: Network,
  body: () => Result,
): Result {
  const virtual = new VirtualGlobals(world, network);
  const { openSync, lstatSync, renameSync, removeSync } = Deno;
  const open = (path: string, options?: Deno.OpenOptions): Deno.FsFile =>
    virtual.withLocks(path, openSync(path, options));
  const real = { openSync: open, lstatSync, renameSync, removeSync } as FileFunctions;
  const files = withVirtualDisks(world.disks, real);
  const { exec, prepare } = DatabaseSync.prototype;
  using replaced = new DisposableStack();
  // deno-lint-ignore no-explicit-any
  const replace = (object: any, name: string, value: unknown): void => {
    const before = Object.getOwnPropertyDescriptor(object, name);
    Object.defineProperty(object, name, { value, configurable: true, writable: true });
    replaced.defer(() => {
      if (before === undefined) delete object[name];
      else Object.defineProperty(object, name, before);
    });
  };
  replace(globalThis, "setTimeout", virtual.setTimeout);
  replace(globalThis, "clearTimeout", virtual.clearTimeout);
  replace(globalThis, "setInterval", virtual.setInterval);
  replace(globalThis, "clearInterval", virtual.clearTimeout);
  replace(performance, "now", virtual.now);
  replace(performance, "timeOrigin", 0);
  replace(Date, "now", virtual.unixNow);
  replace(Math, "random", virtual.random);
  replace(crypto, "getRandomValues", virtual.getRandomValues);
  replace(crypto, "randomUUID", virtual.randomUUID);
  replace(Atomics, "wait", virtual.wait);
  replace(Atomics, "waitAsync", virtual.waitAsync);
  replace(Atomics, "notify", virtual.notify);
  replace(Deno, "connect", virtual.connect);
  for (const [object, open] of VIRTUAL_CONNECTIONS) replace(object, "open", open);
  replace(globalThis, "Worker", function (url: URL): QueryWorker {
    return virtual.startWorker(url);
  });
  replace(
    Deno,
    "openSync",
    (path: string, options: Deno.OpenOptions) => virtual.openedBy(files.openSync(path, options)),
  );
  for (const name of ["lstatSync", "renameSync", "removeSync"] as const) {
    replace(Deno, name, files[name]);
  }
  for (const [name, call] of [["exec", exec], ["prepare", prepare]] as const) {
    replace(DatabaseSync.prototype, name, function (this: DatabaseSync, sql: string): unknown {
      virtual.noteDatabase(this);
      return Reflect.apply(call, this, [sql]);
    });
  }
  return body();
}
