import {
  Cache,
  OutcomeUnknownError,
  RolledBackError,
  UnfinishedError,
} from "../../lib/client/mod.ts";
import { putName } from "./coverage.ts";
import type { History } from "./history.ts";
import { type ItemHistory } from "./items_check.ts";
import type { ApplicationPlan, ItemRequest } from "./plan.ts";
import type { Process, World } from "./world.ts";

/** Longest way of a statement to the application's database, and back: of most, and of some. */
const WAY_MS = 5;
const SLOW_WAY_MS = 500;
/** Share of replies that are slow, and of those to statements that took long. */
const SLOW_REPLIES = 0.05;
const SLOW_LATE_REPLIES = 0.5;
/** Longest time until an application asks for an outcome that it has not learnt. */
const ASK_MS = 200;
/** How late a commit may take effect whose session was lost. */
const LATE_MS = 100;
/** The database has not said whether it has committed. */
class LostReply extends Error {}

/** What outlives the processes of an application: its database, and the requests that are left. */
export class Application {
  readonly history: ItemHistory;
  readonly plan: ApplicationPlan;
  /** Requests that ended without an error. */
  answered = 0;
  /** Requests in progress. */
  readonly underWay = new Set<ItemRequest>();
  readonly #rows: Map<string, number>;
  #next = 0;
  #isFinishing = false;

  /** Told how long a commit takes that begins under a token. */
  readonly noteCommit: (commitMs: number) => void;

  /** @param rows The database that all applications share: versions. */
  constructor(
    plan: ApplicationPlan,
    rows: Map<string, number>,
    history: ItemHistory,
    noteCommit: (commitMs: number) => void,
  ) {
    this.noteCommit = noteCommit;
    this.plan = plan;
    this.#rows = rows;
    this.history = history;
  }

  /** What it waits for, for messages. */
  get waitsFor(): string {
    const kinds = [...this.underWay].map(({ kind, key }) => `${kind} of ${key}`);
    return `${this.plan.name} waits for ${kinds.join(", ")}`;
  }

  get isDone(): boolean {
    return this.underWay.size === 0 &&
      (this.#isFinishing || this.#next >= this.plan.requests.length);
  }

  /** Begins no further request. */
  finish(): void {
    this.#isFinishing = true;
  }

  take(): ItemRequest | null {
    if (this.#isFinishing) return null;
    return this.plan.requests[this.#next++] ?? null;
  }

  versionOf(key: string): number {
    return this.#rows.get(key) ?? 0;
  }

  commit(key: string, at: number): number {
    const version = this.versionOf(key) + 1;
    this.#rows.set(key, version);
    this.history.commits.push({ key, version, at });
    return version;
  }
}

/** A process of an application, which uses the client library. */
export class ApplicationProcess {
  readonly #world: World;
  readonly #clock: History;
  readonly #process: Process;
  readonly #application: Application;
  readonly #cache: Cache<number>;

  constructor(world: World, clock: History, process: Process, application: Application) {
    this.#world = world;
    this.#clock = clock;
    this.#process = process;
    this.#application = application;
    const { servers, replyMs } = application.plan;
    this.#cache = new Cache<number>([...servers], {
      connectMs: 500,
      replyMs,
      whenDown: application.plan.whenDown,
    });
    for (let fiber = 0; fiber < application.plan.fibers; fiber++) void this.#run();
  }

  async #run(): Promise<void> {
    const application = this.#application;
    for (let request; (request = application.take()) !== null;) {
      await this.#pause(request.pauseMs);
      application.underWay.add(request);
      const ended = (): void => {
        application.underWay.delete(request!);
        this.#process.atEnd.delete(ended);
      };
      this.#process.atEnd.add(ended);
      try {
        await this.#execute(request);
        application.answered++;
        if (request.kind !== "put") this.#world.met.add(`request ${request.kind}: done`);
      } catch (error) {
        if (request.kind !== "put") this.#world.met.add(`request ${request.kind}: error`);
        this.#note(`${request.kind} ${request.key} fails: ${(error as Error).message}`);
      }
      ended();
    }
  }

  #note(text: string): void {
    this.#world.note(this.#process.name, text);
  }

  #execute(request: ItemRequest): Promise<void> {
    this.#note(`${request.kind} ${request.key}`);
    switch (request.kind) {
      case "load":
        return this.#load(request.key);
      case "put":
        return this.#put(request);
      case "lock":
        return this.#lock(request.key);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#world.timer(ms, this.#process, resolve));
  }

  /**
   * Has something happen in the database, and its result come back.
   *
   * @param lateMs It takes so much longer to arrive.
   */
  #ask<Result>(act: () => Result, lateMs = 0): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<Result>();
    const world = this.#world;
    world.after(lateMs + WAY_MS * world.random(), world.nobody, () => {
      const result = act();
      const slowShare = lateMs > 0 ? SLOW_LATE_REPLIES : SLOW_REPLIES;
      const wayMs = world.random() < slowShare ? SLOW_WAY_MS : WAY_MS;
      world.after(wayMs * world.random(), this.#process, () => resolve(result));
    });
    return promise;
  }

  async #load(key: string): Promise<void> {
    const start = this.#clock.tick();
    const application = this.#application;
    const version = await this.#cache.getOrLoad(
      key,
      () => this.#ask(() => application.versionOf(key)),
      application.plan.load,
    );
    const end = this.#clock.tick();
    this.#note(`got version ${version} of ${key}`);
    const by = this.#process.name;
    application.history.loads.push({ key, version: version ?? -1, start, end, by });
  }

  async #put({ key, form, outcome, commitMs }: ItemRequest): Promise<void> {
    let version = 0;
    const commit = async (): Promise<void> => {
      this.#world.met.add(`request ${putName(form, outcome)}`);
      if (outcome === "rolledBack") throw new RolledBackError("a conflict");
      if (form === "tokens" && outcome !== "late") this.#application.noteCommit(commitMs);
      const made = this.#ask(
        () => version = this.#application.commit(key, this.#clock.tick()),
        outcome === "late" ? LATE_MS : commitMs,
      );
      if (outcome === "late") throw new LostReply("the connection is lost");
      await made;
      if (outcome === "lost") throw new LostReply("no reply to COMMIT");
    };
    const finished = (): void => {
      if (version === 0) return;
      this.#application.history.finished.push({ key, version, at: this.#clock.tick() });
    };
    try {
      await this.#cache.put(key, commit, { form });
    } catch (error) {
      // The keys were invalidated, although the outcome is not known.
      if (form === "leases" && error instanceof LostReply) finished();
      if (error instanceof OutcomeUnknownError) return await this.#resolve(error, finished);
      if (error instanceof UnfinishedError) {
        await this.#repeat(error.retry);
        return finished();
      }
      throw error;
    }
    finished();
  }

  async #resolve(error: OutcomeUnknownError, finished: () => void): Promise<void> {
    // By then the database has ended the session, and with it the transaction.
    await this.#pause(LATE_MS + WAY_MS + ASK_MS * this.#world.random());
    await this.#repeat(error.resolve);
    finished();
  }

  /** Does again what servers have not confirmed, until they do: a key whose token stays out is never cached. */
  async #repeat(act: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        return void await act();
      } catch (error) {
        if (!(error instanceof UnfinishedError || error instanceof OutcomeUnknownError)) {
          throw error;
        }
      }
      await this.#pause(ASK_MS);
    }
  }

  async #lock(key: string): Promise<void> {
    const start = this.#clock.tick();
    const { history } = this.#application;
    await this.#cache.withLock(key, async (section) => {
      const by = this.#process.name;
      const { fence } = section;
      history.locks.push({ key, fence, start, at: this.#clock.tick(), by });
      for (let count = this.#world.choose(3); count > 0; count--) {
        await this.#pause(WAY_MS * this.#world.random());
        const began = this.#clock.tick();
        await section.set(key, fence);
        history.guarded.push({ key, fence, start: began });
      }
    }, { waitMs: 500 });
  }
}
