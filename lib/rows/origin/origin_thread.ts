import type { Cache } from "../../../store/cache.ts";
import type { TransportEvent } from "../../net/transport.ts";
import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";
import { unwatchedEvents } from "../../databases/views/unwatched.ts";
import { Views } from "../../databases/views/view.ts";
import { readViewsFile } from "../../databases/views/views_file.ts";
import { databaseSource } from "./database_source.ts";
import { type Backend, databaseName } from "../../databases/base/backend.ts";
import { openBackend } from "../../databases/open_backend.ts";
import { EVERY_ROW, hasEveryRow, type KeySet } from "../../databases/views/key_set.ts";
import { expel } from "../flows/expulsion.ts";
import { Flows, type Right } from "../flows/flows.ts";
import { isLastMark, noteMark } from "../flows/marks.ts";
import { NodeList } from "../flows/node_list.ts";
import { takeOver } from "../flows/takeover.ts";
import { TokenStates } from "../flows/token_states.ts";
import { Follower, type LogContext } from "../follow/follower.ts";
import { LagGuard, type Suspender } from "../follow/lag_guard.ts";
import { PrefixExpulsion } from "../follow/prefix_expulsion.ts";
import type { RowsMessage, RowsStart } from "../messages.ts";
import { NodeServer } from "../nodes/node_server.ts";
import { openRowCache } from "../open_row_cache.ts";
import type { RowsOptions } from "../options.ts";
import { RowCommands } from "./row_commands.ts";
import { RowLoop } from "../row_loop.ts";
import { OwnRows } from "../own_rows.ts";
import { RowsMeter } from "../meter/rows_meter.ts";
import { type OpenDatabase, OriginTruth } from "./origin_truth.ts";
import { StartError } from "./start_error.ts";
import { StepRunner } from "./step_runner.ts";
import { SYSTEM_CLOCK, Upkeep } from "./upkeep.ts";
import { ViewsReload } from "./views_reload.ts";

/** Ended tokens kept in memory; the database remembers the used ones for longer. */
const ENDED_TOKENS_MAX = 10_000;
/** How long a start waits until the log is applied to saved rows; after it, they are removed. */
const CATCH_UP_MS = 10_000;

type Say = (message: RowsMessage) => void;
type Report = (event: TransportEvent) => void;

interface OriginParts {
  readonly cache: Cache;
  readonly options: RowsOptions;
  readonly backend: Backend;
  readonly runner: StepRunner;
  readonly epoch: number;
  readonly savesRows: boolean;
  /** Null: there are none. */
  readonly views: Views | null;
  readonly openDatabase: OpenDatabase;
  readonly say: Say;
  readonly report: Report;
}

/** The database, the nodes, and the loop that serves requests. */
export class OriginThread {
  readonly #options: RowsOptions;
  readonly #backend: Backend;
  readonly #flows: Flows;
  readonly #runner: StepRunner;
  readonly #loop: RowLoop;
  readonly #right: Right;
  /** Null: the log is not followed. */
  readonly #follower: Follower | null;
  /** Null: the log is not followed, and there are no views. */
  readonly #expulsion: PrefixExpulsion | null;
  readonly #upkeep: Upkeep;
  #following: Promise<void> | undefined;
  readonly #savesRows: boolean;
  readonly #report: Report;
  readonly #own: OwnRows;
  readonly #nodeServer: NodeServer;
  readonly #viewsReload: ViewsReload;
  /** Null: nothing is compared. */
  readonly #meter: RowsMeter | null;
  /** Those that are served; null: there are none. */
  #views: Views | null;
  /** The meter has found too many wrong values. */
  #isKeepingNothing = false;

  private constructor(parts: OriginParts) {
    const { cache, options, backend, runner, epoch, savesRows, views, openDatabase, say, report } =
      parts;
    this.#options = options;
    this.#savesRows = savesRows;
    this.#report = report;
    this.#backend = backend;
    const states = new TokenStates(
      epoch,
      options.tokenEntries,
      ENDED_TOKENS_MAX,
      () => performance.now(),
    );
    const nodes = new NodeList(newSecret, options.memberTimeMs, options.driftShare);
    this.#flows = new Flows(states, options.dbTimeoutMs);
    this.#runner = runner;
    // Its events come with new problems of the log, or end them.
    const reportLog: Report = (event) => {
      report(event);
      this.#upkeep.tell();
      // Perhaps another server has taken the address.
      if (event.event === "log_followed") this.#meter?.reopen();
    };
    const follower = options.follow
      ? new Follower(backend, this.#rowsOfLog, reportLog, pause)
      : null;
    const rows = cache.rows!;
    this.#follower = follower;
    const expulsion = follower && new PrefixExpulsion(
      (rows) => this.#expel(rows),
      { follower, endOfLog: () => backend.endOfLog() },
      pause,
    );
    this.#expulsion = expulsion;
    const waitForNow = (ms: number, signal?: AbortSignal): Promise<boolean> =>
      expulsion!.waitForNow(ms, signal);
    this.#viewsReload = new ViewsReload({
      read: () => viewsOf(options)!,
      prepare: (views) => backend.prepareViews(views),
      replace: (views, prepared) => {
        this.#views = views;
        this.#meter?.reopen();
        return runner.views.replace(views, prepared);
      },
      expelReplaced: (prefixes) => this.#expulsion!.expelReplaced(prefixes),
      report,
    });
    this.#own = new OwnRows(cache, options.prefixes, pause);
    this.#right = rows.right;
    const lagGuard = follower !== null && options.lagQuarantine
      ? new LagGuard(follower, options.lagMaxMs, this.#suspender, report)
      : null;
    this.#nodeServer = new NodeServer(nodes, {
      right: rows.right,
      own: this.#own,
      memberMs: options.memberTimeMs,
      prefixes: options.prefixes,
      expiry: options.rowExpiry,
      fits: (keyLength, valueLength, flags) => rows.fits(keyLength, valueLength, flags),
      read: (keys, isReadable) => runner.run(this.#flows.read(keys, isReadable)),
      noteNodes: (servesMs) => backend.noteNodes(servesMs, epoch),
      report,
    });
    this.#views = views;
    this.#meter = options.verify === 0 ? null : new RowsMeter({
      ...{ cache, options, report },
      viewPrefixes: () => this.#views?.prefixes ?? [],
      openTruth: () =>
        OriginTruth.open({
          ...{ options, openDatabase, epoch, views: this.#views },
          log: follower && { waitForNow },
        }),
      expel: (key) => this.#expel({ keys: [key], prefixes: [] }),
      quarantine: options.stale === "quarantine" ? this.#keepNothing : null,
    });
    runner.delete = (rows) => {
      this.#meter?.noteDeletion(rows);
      return this.#nodeServer.delete(rows);
    };
    const commands = new RowCommands(
      this.#flows,
      runner,
      this.#nodeServer,
      follower && { follower, waitForNow, right: rows.right },
      (keyLength, valueLength, flags) => rows.fits(keyLength, valueLength, flags),
      () => this.#meter?.stats ?? [],
    );
    const source = databaseSource(
      this.#flows,
      runner,
      commands,
      () => this.#nodeServer.hasMembers,
      () => this.#nodeServer.stop(),
    );
    this.#loop = new RowLoop(
      cache,
      source,
      options.rowExpiry === "column",
      (key, kind) => this.#meter?.noteCached(key, kind),
    );
    this.#upkeep = new Upkeep({
      clock: SYSTEM_CLOCK,
      ...{ options, backend, runner, follower, lagGuard, say },
      flows: this.#flows,
      right: this.#right,
      nodeServer: this.#nodeServer,
      loop: this.#loop,
      meter: this.#meter,
    });
  }

  /** Deletes rows that other writers have changed. */
  #expel(rows: KeySet): Promise<void> {
    return this.#runner.run(expel(rows));
  }

  /** Deletes what the log names, which clients of `uget` may have missed. */
  get #rowsOfLog(): LogContext {
    return {
      note: (changed) => {
        this.#meter?.noteChanges(changed);
        // Perhaps the schema has changed.
        if (hasEveryRow(changed)) this.#meter?.reopen();
        this.#flows.noteChanges(changed, this.#follower!.caughtUpMs);
      },
      take: (step) => this.#runner.take(step),
    };
  }

  /** Reads rows from the database from here on, and keeps them nowhere. */
  readonly #keepNothing = (): void => {
    this.#isKeepingNothing = this.#flows.isSuspended = true;
    void this.#expel(EVERY_ROW);
  };

  get #suspender(): Suspender {
    return {
      suspend: (isSuspended) => this.#flows.isSuspended = isSuspended || this.#isKeepingNothing,
      dropRows: () => this.#expel(EVERY_ROW),
    };
  }

  /**
   * Reads files first, then takes the database over.
   *
   * @param openDatabase Opens the database; another one than `openBackend` is for tests.
   * @throws StartError
   */
  static async open(
    start: RowsStart,
    options: RowsOptions,
    say: Say,
    openDatabase: OpenDatabase = openBackend,
  ): Promise<OriginThread> {
    const report: Report = (event) => say({ kind: "event", event });
    const cache = openRowCache(start);
    const views = viewsOf(options);
    for (const event of unwatchedEvents(views ?? Views.NONE)) report(event);
    let backend: Backend | undefined;
    try {
      backend = await openDatabase(options);
      const runner = new StepRunner(backend, pause);
      if (views !== null) await runner.views.replace(views, await backend.prepareViews(views));
      const taken = await runner.run(
        takeOver(
          options.takeover,
          options.memberTimeMs,
          (problem) => report(waitEvent(options, problem)),
          options.driftShare,
        ),
      );
      const { epoch } = taken;
      // Those of the origin before serve no row any more.
      await backend.noteNodes(0, epoch);
      const { savesRows } = start;
      const thread = new OriginThread({
        cache,
        options,
        backend,
        runner,
        epoch,
        savesRows,
        views,
        openDatabase,
        say,
        report,
      });
      await thread.#follower?.open();
      if (start.savedMark !== null) {
        await thread.#resumeRows(isLastMark(start.savedMark, taken));
      }
      // Last: the steps before may take longer than the right lasts.
      await runner.run(thread.#flows.renewRight(thread.#right, options.memberTimeMs));
      return thread;
    } catch (error) {
      await backend?.close();
      throw new StartError(`cannot use the database ${databaseName(options.database)}`, error);
    }
  }

  /** Removes the rows of the snapshot, unless they are certainly those of the database. Nothing is served before. */
  async #resumeRows(isCurrent: boolean): Promise<void> {
    const reason = isCurrent
      ? await this.#catchUp()
      : "another origin was active since, or the database is another one";
    if (reason === null) {
      const message = "the rows of the snapshot are kept: no other origin was active since";
      return this.#report({ level: "info", event: "rows_kept", message, fields: {} });
    }
    await this.#own.expel(EVERY_ROW);
    const message = `the rows of the snapshot are removed: ${reason}`;
    this.#report({ level: "warning", event: "rows_removed", message, fields: { reason } });
  }

  /** Applies the log to rows, if it is followed. @returns Why that cannot be known; null: all is applied. */
  async #catchUp(): Promise<string | null> {
    const follower = this.#follower;
    if (follower === null) return null;
    let end: bigint;
    try {
      end = await this.#backend.endOfLog();
    } catch (error) {
      return reasonOf(error);
    }
    this.#following = follower.run();
    if (await follower.wait(end, CATCH_UP_MS)) return null;
    return follower.problem ?? `the log was not applied within ${CATCH_UP_MS} ms`;
  }

  /** Serves requests until `stop`. @returns The mark for rows that are saved; "": they must not be. */
  async run(): Promise<string> {
    this.#upkeep.start();
    this.#meter?.start();
    this.#following ??= this.#follower?.run();
    await this.#loop.run();
    this.#upkeep.stop();
    await Promise.all([this.#meter?.stop(), this.#end()]);
    await this.#following;
    await this.#runner.views.close();
    const mark = this.#savesRows ? await this.#noteMark() : "";
    await this.#backend.close();
    return mark;
  }

  stop(): void {
    this.#expulsion?.stop();
    void this.#follower?.stop();
    this.#loop.stop();
  }

  /** Gives the right to serve rows up, so that the next origin need not wait, unless nodes may serve rows. */
  async #end(): Promise<void> {
    if (this.#nodeServer.hasMembers) return this.#right.end();
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
      this.#report({ level: "warning", event: "rows_not_saved", message, fields: { reason } });
      return "";
    }
  }

  /** Reads the file of views again. One with mistakes changes nothing. */
  reload(): void {
    if (this.#options.views === "") return;
    void this.#viewsReload.request();
  }
}

/** @returns Null: there are none. @throws StartError */
function viewsOf({ views, prefixes }: RowsOptions): Views | null {
  if (views === "") return null;
  try {
    return readViewsFile(views, prefixes);
  } catch (error) {
    throw new StartError("cannot use --views", error, true);
  }
}

/** Returns 128 random bits in hexadecimal digits: who has them speaks for a node. */
function newSecret(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

function waitEvent({ takeover, database }: RowsOptions, problem: string | null): TransportEvent {
  const name = databaseName(database);
  if (problem !== null) {
    return {
      level: "warning",
      event: "takeover_failed",
      message: `cannot take over the rows of ${name}, trying again: ${problem}`,
      fields: { database: name, reason: problem },
    };
  }
  return {
    level: "info",
    event: "waiting_for_origin",
    message: `another origin serves the rows of ${name}: waiting for its end`,
    fields: { database: name, takeover },
  };
}
