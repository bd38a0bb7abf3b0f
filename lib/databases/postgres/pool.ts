import { type Parameter, type ResultRow, Session, type SessionSettings } from "./session.ts";

/** A caller that waits for its place among those that have a session. */
type Waiter = (isGiven: boolean) => void;
/** A caller that could open no session, and takes one that another gives back; null: there will be none. */
type SessionWaiter = (session: Session | null) => void;

/**
 * The sessions of an origin. Each serves one caller at a time; the others wait in the order of arrival. The pool bounds
 * the statements in progress: a slow database makes callers wait.
 */
export class Pool {
  readonly settings: SessionSettings;
  readonly #idle: Session[] = [];
  readonly #waiters = new Set<Waiter>();
  readonly #sessionWaiters = new Set<SessionWaiter>();
  /** Sessions that serve a caller, or are being opened for one. */
  #usedCount = 0;
  #freeSlots: number;
  /** Sessions of an earlier generation are used no more. */
  #generation = 0;
  readonly #closing = new Set<Promise<void>>();

  /** @param sessionsMax Most sessions at the same time. */
  constructor(settings: SessionSettings, sessionsMax: number) {
    this.settings = settings;
    this.#freeSlots = sessionsMax;
  }

  /**
   * Calls `run` with a session of its own.
   *
   * @param statements After the time that so many may take, the session is closed, and they fail with LostError.
   * @throws The error of `run`; an error when no session is free or the server cannot be reached.
   */
  async use<Result>(
    run: (session: Session) => Promise<Result>,
    statements = 1,
  ): Promise<Result> {
    await this.#takeSlot();
    const generation = this.#generation;
    const timeoutMs = statements * this.settings.timeoutMs;
    let session: Session | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const used = session = await this.#takeSession();
      timer = setTimeout(() => {
        used.abandon(noAnswer(timeoutMs));
        // If the host has vanished, each of them would take as long to notice it.
        this.renew();
      }, timeoutMs);
      return await run(session);
    } finally {
      clearTimeout(timer);
      if (session !== undefined) this.#giveBack(session, generation);
      this.#freeSlot();
    }
  }

  /** Executes one statement, in any session. @throws As `use`. */
  query(text: string, parameters: readonly Parameter[] = []): Promise<readonly ResultRow[]> {
    return this.use((session) => session.query(text, parameters));
  }

  /** Has later calls of `use` open new sessions: those that are open may lead to a server that was replaced. */
  renew(): void {
    this.#generation++;
    this.#discardIdle();
  }

  /** Closes all sessions. No call of `run` may follow. */
  async close(): Promise<void> {
    this.#discardIdle();
    await Promise.all(this.#closing);
  }

  #discardIdle(): void {
    for (const session of this.#idle.splice(0)) this.#discard(session);
  }

  #idleSession(): Session | undefined {
    for (;;) {
      const session = this.#idle.pop();
      if (session === undefined || !session.isLost) return session;
      this.#discard(session);
    }
  }

  #giveBack(session: Session, generation: number): void {
    const isGood = !session.isLost && generation === this.#generation;
    const [waiter] = this.#sessionWaiters;
    if (isGood && waiter !== undefined) return waiter(session);
    if (isGood) this.#idle.push(session);
    else this.#discard(session);
    this.#lessUsed();
  }

  /**
   * Takes an idle session, or opens one. If the server takes no more of them, as when its `max_connections` are used
   * up, waits for one of this pool that another caller gives back.
   *
   * @throws Why no session can be opened, when none was given back within the time.
   */
  async #takeSession(): Promise<Session> {
    const deadlineMs = performance.now() + this.settings.timeoutMs;
    this.#usedCount++;
    try {
      return this.#idleSession() ?? await Session.open(this.settings);
    } catch (error) {
      const idle = this.#idleSession();
      if (idle !== undefined) return idle;
      this.#lessUsed();
      const given = await this.#awaitSession(deadlineMs - performance.now());
      if (given === null) throw error;
      return given;
    }
  }

  /** Waits for a session that another caller gives back, which stays in use. @returns Null: none within the time. */
  async #awaitSession(ms: number): Promise<Session | null> {
    if (this.#usedCount === 0) return null;
    const { promise, resolve } = Promise.withResolvers<Session | null>();
    const waiter: SessionWaiter = (session) => {
      this.#sessionWaiters.delete(waiter);
      resolve(session);
    };
    this.#sessionWaiters.add(waiter);
    const timer = setTimeout(() => waiter(null), ms);
    const session = await promise;
    clearTimeout(timer);
    return session;
  }

  #lessUsed(): void {
    this.#usedCount--;
    if (this.#usedCount === 0) { for (const waiter of this.#sessionWaiters) waiter(null); }
  }

  #discard(session: Session): void {
    const closed = session.close().finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }

  async #takeSlot(): Promise<void> {
    if (this.#freeSlots > 0) {
      this.#freeSlots--;
      return;
    }
    const { timeoutMs } = this.settings;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiters.add(resolve);
    const timer = setTimeout(() => {
      this.#waiters.delete(resolve);
      resolve(false);
    }, timeoutMs);
    const isGiven = await promise;
    clearTimeout(timer);
    if (!isGiven) {
      throw new Error(`the database is busy: no connection free within ${timeoutMs} ms`);
    }
  }

  #freeSlot(): void {
    for (const waiter of this.#waiters) {
      this.#waiters.delete(waiter);
      return waiter(true);
    }
    this.#freeSlots++;
  }
}

function noAnswer(timeoutMs: number): string {
  return `the database did not answer within ${timeoutMs} ms`;
}
