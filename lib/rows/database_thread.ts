/// <reference lib="deno.worker" />
// The entry module of the thread that speaks to the database and to the listed caches.
import type { Cache } from "../../store/cache.ts";
import type { TransportEvent } from "../net/transport.ts";
import { pause } from "../pause.ts";
import { reasonOf } from "../reason.ts";
import { CacheClient } from "./caches/cache_client.ts";
import type { CacheAddress } from "./caches/caches_file.ts";
import { readDialOptions } from "../peers/dial.ts";
import { type ListChanger, ListKeeper, readCachesFile } from "./caches/list_keeper.ts";
import { type Backend, databaseName } from "./databases/backend.ts";
import { openBackend } from "./databases/open_backend.ts";
import { emptyAll, expelKeys } from "./flows/expulsion.ts";
import { databaseSource } from "./database_source.ts";
import { Flows, type Right } from "./flows/flows.ts";
import { isLastMark, noteMark } from "./flows/marks.ts";
import { NodeList } from "./flows/node_list.ts";
import { takeOver } from "./flows/takeover.ts";
import { type ProxyToken, TokenStates } from "./flows/token_states.ts";
import { type Expeller, Follower } from "./follow/follower.ts";
import { LagGuard, type Suspender } from "./follow/lag_guard.ts";
import { PrefixExpulsion } from "./follow/prefix_expulsion.ts";
import type { RowsCommand, RowsMessage, RowsStart } from "./messages.ts";
import { NodeDesk } from "./nodes/node_desk.ts";
import { NodeThread } from "./nodes/node_thread.ts";
import type { NodeOptions } from "./nodes/options.ts";
import { openRowCache } from "./open_row_cache.ts";
import type { RowsOptions } from "./options.ts";
import { RowCommands } from "./row_commands.ts";
import { RowLoop } from "./row_loop.ts";
import { rowStats } from "./row_stats.ts";
import { removeRows } from "./row_removal.ts";
import { StepRunner } from "./step_runner.ts";
import type { Views } from "./views/view.ts";
import { readViewsFile } from "./views/views_file.ts";

/** Ended tokens kept in memory; the database remembers the used ones for longer. */
const ENDED_TOKENS_MAX = 10_000;
/** Confirmations that the database is asked for while one right to serve rows lasts. */
const CONFIRMATIONS = 4;
/** Update tokens that the dashboard shows. */
const TOKENS_SENT_MAX = 1000;
/** How often outcomes that are unknown are asked for, and the state is sent. */
const TICK_MS = 1000;
/** How long a start waits for caches to join. */
const JOIN_MS = 1000;
/** How often the database forgets old tokens. */
const PURGE_INTERVAL_MS = 60_000;
/** Longest pause between two questions for outcomes that are unknown. */
const RESOLVE_PAUSE_MS_MAX = 30_000;
/** How long a start waits until the log is applied to saved rows; after it, they are removed. */
const CATCH_UP_MS = 10_000;

let thread: DatabaseThread | NodeThread | null = null;

self.onmessage = ({ data }: MessageEvent<RowsCommand>) => {
  switch (data.kind) {
    case "start":
      void begin(data.start);
      return;
    case "reload":
      return thread?.reload();
    case "stop":
      return thread?.stop();
  }
};

// The lock of an SQLite file must not end before the process: a thread that fails goes on until the process has ended.
self.addEventListener("error", (event) => {
  event.preventDefault();
  say({ kind: "died", reason: event.message });
});
self.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  say({ kind: "died", reason: reasonOf(event.reason) });
});

function say(message: RowsMessage): void {
  self.postMessage(message);
}

function report(event: TransportEvent): void {
  say({ kind: "event", event });
}

/** A part of the start failed. */
class StartError extends Error {
  readonly isUsage: boolean;

  constructor(what: string, cause: unknown, isUsage = false) {
    super(`${what}: ${reasonOf(cause)}`);
    this.isUsage = isUsage;
  }
}

async function begin(start: RowsStart): Promise<void> {
  try {
    const { options } = start;
    thread = "origins" in options
      ? await openNode(start, options)
      : await DatabaseThread.open(start, options);
  } catch (error) {
    const isUsage = error instanceof StartError && error.isUsage;
    return say({ kind: "refused", reason: reasonOf(error), isUsage });
  }
  say({ kind: "ready" });
  const mark = await thread.run();
  say({ kind: "ended", mark });
  self.close();
}

/** @throws StartError */
async function openNode(start: RowsStart, options: NodeOptions): Promise<NodeThread> {
  try {
    return await NodeThread.open(start, options, say);
  } catch (error) {
    throw new StartError("cannot become a node", error);
  }
}

interface OriginParts {
  readonly cache: Cache;
  readonly options: RowsOptions;
  readonly backend: Backend;
  readonly runner: StepRunner;
  readonly list: ListKeeper;
  readonly epoch: number;
  readonly savesRows: boolean;
}

/** The database, the listed caches, and the loop that serves requests. */
class DatabaseThread {
  readonly #options: RowsOptions;
  readonly #backend: Backend;
  readonly #list: ListKeeper;
  readonly #flows: Flows<CacheClient>;
  readonly #runner: StepRunner;
  readonly #loop: RowLoop;
  readonly #right: Right;
  /** Null: the log is not followed. */
  readonly #follower: Follower | null;
  readonly #expulsion: PrefixExpulsion;
  /** Null: the lag has no effect on what is served. */
  readonly #lagGuard: LagGuard | null;
  #following: Promise<void> | undefined;
  readonly #savesRows: boolean;
  readonly #nodes: NodeList;
  readonly #desk: NodeDesk;
  #isConfirming = false;
  #isConfirmed = true;
  #isDeposed = false;
  #isTicking = false;
  #viewsReload: Promise<void> = Promise.resolve();
  #purgeMs = performance.now();
  #resolveMs = 0;
  #resolvePauseMs = TICK_MS;

  private constructor({ cache, options, backend, runner, list, epoch, savesRows }: OriginParts) {
    this.#options = options;
    this.#savesRows = savesRows;
    this.#backend = backend;
    this.#list = list;
    const states = new TokenStates(
      epoch,
      options.tokensMax,
      ENDED_TOKENS_MAX,
      () => performance.now(),
    );
    const nodes = this.#nodes = new NodeList(epoch, options.rightMs, options.driftShare);
    this.#flows = new Flows(list.list, states, options.databaseTimeoutMs, nodes);
    this.#runner = runner;
    const expeller = this.#expeller;
    const follower = options.follows ? new Follower(backend, expeller, report, pause) : null;
    const log = follower && { follower, endOfLog: () => backend.endOfLog() };
    this.#follower = follower;
    this.#expulsion = new PrefixExpulsion(expeller, log, pause);
    const rows = cache.rows!;
    this.#right = rows.right;
    this.#lagGuard = follower !== null && options.lagQuarantines
      ? new LagGuard(follower, options.lagMsMax, this.#suspender, report)
      : null;
    this.#desk = new NodeDesk(nodes, {
      right: rows.right,
      memberMs: options.rightMs,
      prefixes: options.prefixes,
      expiry: options.expiry,
      fits: (keyLength, valueLength, flags) => rows.fits(keyLength, valueLength, flags),
      read: (keys, isReadable) => runner.run(this.#flows.read(keys, isReadable)),
      noteNodes: (servesMs) => backend.noteNodes(servesMs, epoch),
      report,
    });
    runner.invalidateNodes = (keys) => this.#desk.delete(keys);
    const forget = (name: string): Promise<boolean> =>
      list.whileUnchanged(() => runner.run(list.list.forget(name, epoch)));
    const commands = new RowCommands(this.#flows, runner, forget, this.#desk, log);
    const source = databaseSource(this.#flows, runner, commands, () => this.#desk.stop());
    this.#loop = new RowLoop(cache, source, options.expiry === "column");
  }

  /** The one door through which changes of other writers delete rows. */
  get #expeller(): Expeller {
    const { list } = this.#list;
    const run = this.#runner;
    return {
      expel: (keys) => run.run(expelKeys(list, keys, this.#nodes)),
      empty: () => this.#list.whileUnchanged(() => run.run(emptyAll(list, this.#nodes))),
    };
  }

  get #suspender(): Suspender {
    return {
      suspend: (isSuspended) => this.#flows.isSuspended = isSuspended,
      dropRows: () => this.#expulsion.expel([""]),
      caches: () => [...this.#list.list.members].map(({ cache }) => cache),
      whileUnchanged: (act) => this.#list.whileUnchanged(act),
    };
  }

  /** Reads files first, then takes the database over. @throws StartError */
  static async open(start: RowsStart, options: RowsOptions): Promise<DatabaseThread> {
    const cache = openRowCache(start);
    const { cacheLoginFile, cacheCaCertPath, cacheTimeoutMs } = options;
    const caches = addressesOf(options);
    const dialOptions = readDialOptions(cacheTimeoutMs, cacheLoginFile, cacheCaCertPath);
    const connect = (hostname: string, port: number): CacheClient =>
      new CacheClient(hostname, port, dialOptions);
    const list = new ListKeeper(connect, report);
    let backend: Backend | undefined;
    try {
      const views = viewsOf(options);
      backend = await openBackend(options);
      const runner = new StepRunner(cache, backend, pause);
      if (views !== null) await runner.views.replace(views, await backend.prepareViews(views));
      const taken = await runner.run(
        takeOver<CacheClient>(
          options.takeover,
          options.rightMs,
          (problem) => reportWait(options, problem),
          options.driftShare,
        ),
      );
      const { epoch } = taken;
      // Those of the origin before serve no row any more.
      await backend.noteNodes(0, epoch);
      const { savesRows } = start;
      const thread = new DatabaseThread({
        cache,
        options,
        backend,
        runner,
        list,
        epoch,
        savesRows,
      });
      await list.adopt(backend, caches);
      await thread.#follower?.open();
      // A cache that does not answer joins later.
      await Promise.race([list.set(thread.#changer, caches), pause(JOIN_MS)]);
      if (start.savedMark !== null) {
        await thread.#resumeRows(cache, isLastMark(start.savedMark, taken));
      }
      // Last: the steps before may take longer than the right lasts.
      await runner.run(thread.#flows.renewRight(thread.#right, options.rightMs));
      return thread;
    } catch (error) {
      list.close();
      await backend?.close();
      throw new StartError(`cannot use the database ${databaseName(options.database)}`, error);
    }
  }

  get #changer(): ListChanger {
    const flows = this.#flows;
    return {
      get isDeposed() {
        return flows.isDeposed;
      },
      changeCaches: (target) => this.#runner.run(flows.changeCaches(target)),
    };
  }

  /** Removes the rows of the snapshot, unless they are certainly those of the database. Nothing is served before. */
  async #resumeRows(cache: Cache, isCurrent: boolean): Promise<void> {
    const reason = isCurrent
      ? await this.#catchUp()
      : "another origin was active since, or the database is another one";
    if (reason === null) {
      const message = "the rows of the snapshot are kept: no other origin was active since";
      return report({ level: "info", event: "rows_kept", message, fields: {} });
    }
    await removeRows(cache, this.#options.prefixes, pause);
    const message = `the rows of the snapshot are removed: ${reason}`;
    report({ level: "warning", event: "rows_removed", message, fields: { reason } });
  }

  /** Applies the log to rows, if it is followed. @returns Why that cannot be known; null: all is applied. */
  async #catchUp(): Promise<string | null> {
    const follower = this.#follower;
    if (follower === null) return null;
    const end = await this.#backend.endOfLog();
    this.#following = follower.run();
    if (await follower.wait(end, CATCH_UP_MS)) return null;
    return follower.problem ?? `the log was not applied within ${CATCH_UP_MS} ms`;
  }

  /** Serves requests until `stop`. @returns The mark for rows that are saved; "": they must not be. */
  async run(): Promise<string> {
    const ticker = setInterval(() => void this.#tick(), TICK_MS);
    const confirmMs = Math.min(TICK_MS, this.#options.rightMs / CONFIRMATIONS);
    const confirmer = setInterval(() => void this.#confirm(), confirmMs);
    this.#sendState();
    this.#following ??= this.#follower?.run();
    await this.#loop.run();
    clearInterval(ticker);
    clearInterval(confirmer);
    await this.#end();
    this.#list.close();
    await this.#following;
    await this.#runner.views.close();
    const mark = this.#savesRows ? await this.#noteMark() : "";
    await this.#backend.close();
    return mark;
  }

  stop(): void {
    this.#expulsion.stop();
    void this.#follower?.stop();
    this.#loop.stop();
  }

  /** Gives the right to serve rows up, so that the next origin need not wait, unless nodes may serve rows. */
  async #end(): Promise<void> {
    if (this.#desk.hasMembers) return this.#right.end();
    try {
      await this.#runner.run(this.#flows.endRight(this.#right));
    } catch {
      // The next origin waits.
    }
  }

  /** Notes that the rows in the cache are those of the database. @returns The mark; "": they may not be. */
  async #noteMark(): Promise<string> {
    const { epoch } = this.#flows.states;
    try {
      return await this.#runner.run(noteMark(epoch, crypto.randomUUID()));
    } catch (error) {
      const reason = reasonOf(error);
      const message = `the rows are not saved: the database has noted no mark: ${reason}`;
      report({ level: "warning", event: "rows_not_saved", message, fields: { reason } });
      return "";
    }
  }

  /** Renews the right to serve rows; learns whether another origin has taken over. */
  async #confirm(): Promise<void> {
    if (this.#isConfirming) return;
    this.#isConfirming = true;
    try {
      await this.#runner.run(this.#flows.renewRight(this.#right, this.#options.rightMs));
      this.#isConfirmed = true;
    } catch (error) {
      this.#isConfirmed = false;
      this.#loop.problem = reasonOf(error);
    }
    this.#isConfirming = false;
    if (this.#flows.isDeposed) this.#sendState();
  }

  /** Reads the files of caches and views again. One with mistakes changes nothing. */
  reload(): void {
    this.#reloadCaches();
    if (this.#options.viewsPath === "") return;
    this.#viewsReload = this.#viewsReload.then(() => this.#reloadViews());
  }

  #reloadCaches(): void {
    if (this.#options.cachesPath === "") return;
    try {
      void this.#list.set(this.#changer, readCachesFile(this.#options.cachesPath));
    } catch (error) {
      const reason = reasonOf(error);
      report({
        level: "error",
        event: "caches_refused",
        message: `SIGHUP: the list of caches stays as it is: ${reason}`,
        fields: { reason },
      });
    }
  }

  async #reloadViews(): Promise<void> {
    let prefixes: readonly string[];
    try {
      const next = viewsOf(this.#options)!;
      prefixes = await this.#runner.views.replace(next, await this.#backend.prepareViews(next));
      const message = `SIGHUP: ${next.all.length} views are served, ${next.path}`;
      report({ level: "info", event: "views", message, fields: { views: next.all.length } });
    } catch (error) {
      const reason = reasonOf(error);
      const message = `SIGHUP: the views stay as they are: ${reason}`;
      return report({ level: "error", event: "views_refused", message, fields: { reason } });
    }
    await this.#expulsion.expelReplaced(prefixes);
  }

  async #tick(): Promise<void> {
    void this.#follower?.measure();
    void this.#lagGuard?.watch();
    this.#desk.watch();
    if (!this.#isConfirmed || this.#isTicking) return this.#sendState();
    const nowMs = performance.now();
    this.#isTicking = true;
    try {
      await this.#backend.check();
      if (nowMs >= this.#resolveMs) this.#loop.problem = null;
      await this.#resolveUnknown(nowMs);
      if (nowMs - this.#purgeMs >= PURGE_INTERVAL_MS) {
        this.#purgeMs = nowMs;
        await this.#backend.purgeExpired();
        await this.#backend.purgeApplied(Date.now() - this.#options.appliedTtlSec * 1000);
      }
    } catch (error) {
      this.#loop.problem = reasonOf(error);
    }
    this.#isTicking = false;
    this.#sendState();
  }

  /** Asks for the outcomes of writes that nobody waits for any more, less and less often. */
  async #resolveUnknown(nowMs: number): Promise<void> {
    if (nowMs < this.#resolveMs) return;
    const left = await this.#runner.run(this.#flows.resolveUnknown());
    this.#resolvePauseMs = left === 0
      ? TICK_MS
      : Math.min(2 * this.#resolvePauseMs, RESOLVE_PAUSE_MS_MAX);
    this.#resolveMs = nowMs + this.#resolvePauseMs;
  }

  get #lagProblem(): string | null {
    if (this.#follower === null) return null;
    const { problem, lagMs } = this.#follower;
    if (problem !== null) return problem;
    if (lagMs <= this.#options.lagMsMax) return null;
    return `changes of rows have not been applied for ${lagMs} ms, more than --lag-max`;
  }

  get #oldestTokens(): (ProxyToken & { readonly ageMs: number })[] {
    const nowMs = performance.now();
    const oldest = this.#flows.states.list().take(TOKENS_SENT_MAX);
    return [...oldest.map((token) => ({ ...token, ageMs: nowMs - token.sinceMs }))];
  }

  #sendState(): void {
    const { isDeposed, deposedText } = this.#flows;
    if (isDeposed && !this.#isDeposed) {
      this.#isDeposed = true;
      say({ kind: "deposed", reason: deposedText });
    }
    const follower = this.#follower ?? undefined;
    const problem = isDeposed ? deposedText : this.#loop.problem ?? this.#lagProblem;
    const nodes = this.#desk.states;
    const stats = [...rowStats(this.#flows, this.#runner, nodes, follower)];
    say({ kind: "state", stats, problem, nodes, tokens: this.#oldestTokens });
  }
}

function reportWait({ takeover, database }: RowsOptions, problem: string | null): void {
  const name = databaseName(database);
  if (problem !== null) {
    return report({
      level: "warning",
      event: "takeover_failed",
      message: `cannot take over the rows of ${name}, trying again: ${problem}`,
      fields: { database: name, reason: problem },
    });
  }
  report({
    level: "info",
    event: "waiting_for_origin",
    message: `another origin serves the rows of ${name}: waiting for its end`,
    fields: { database: name, takeover },
  });
}

/** @returns Null: there are none. @throws StartError */
function viewsOf({ viewsPath, prefixes }: RowsOptions): Views | null {
  return viewsPath === "" ? null : useFile("--views", () => readViewsFile(viewsPath, prefixes));
}

/** @throws StartError */
function addressesOf({ cachesPath, caches }: RowsOptions): readonly CacheAddress[] {
  return cachesPath === "" ? caches : useFile("--caches", () => readCachesFile(cachesPath));
}

/** @throws StartError */
function useFile<Content>(option: string, read: () => Content): Content {
  try {
    return read();
  } catch (error) {
    throw new StartError(`cannot use ${option}`, error, true);
  }
}
