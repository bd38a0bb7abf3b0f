import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import { LogStatements } from "./log/log_statements.ts";
import type { LogRow, LogStatementName } from "./log/statements.ts";
import { Wal } from "./log/wal.ts";
import { WalSender } from "./log/wal_sender.ts";
import type { End, Network, Receiver } from "./network.ts";
import type { Committed } from "./rows_check.ts";
import type { Process, World } from "./world.ts";

/** Of the table of articles, which no origin writes. */
export const VIEWS = `{
  "article:{id}": {
    "query": "SELECT id, value, version FROM article WHERE id = {id}",
    "changes": { "article": "article:{id}" }
  },
  "articles": {
    "query": "SELECT id, value, version FROM article ORDER BY id",
    "value": "array",
    "changes": { "article": "articles" }
  }
}`;
export const ARTICLE =
  "CREATE TABLE article (id INTEGER PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL);";

export const DATABASE_HOST = "database";
export const DATABASE_PORT = 5432;
/** Longest time of a statement that waits for nothing, in milliseconds. */
const STATEMENT_MS = 0.5;
/** How long a takeover waits for the writes of the origin before; then it ends their sessions. */
export const GRACE_MS = 1000;
/** Longest time of another program's transaction: of most, and of a share of them. */
const DIRECT_MS = 1;
const SLOW_DIRECT_MS = 300;
const SLOW_DIRECTS = 0.05;

/** A row as the database keeps it; null: it was deleted. Characters of texts are bytes. */
export interface StoredRow {
  readonly value: string | null;
  readonly flags: number;
  readonly version: number;
}

/** A change of a transaction. */
export interface ModelChange {
  readonly key: string;
  /** 0: another program's, which has none. */
  readonly tokenId: number;
  readonly flags: number;
  /** Null: deletes the row. */
  readonly value: string | null;
}

/** A statement of a session. */
export type Statement =
  /** The epoch; takes the lock of the active origin if it is free. */
  | { readonly kind: "origin" }
  /** Lets go of that lock. */
  | { readonly kind: "unlock" }
  | { readonly kind: "takeOver"; readonly rightMs: number }
  | { readonly kind: "read"; readonly keys: readonly string[] }
  /** Begins a transaction: locks the epoch and the rows, and reads them. */
  | { readonly kind: "begin"; readonly keys: readonly string[]; readonly epoch: number }
  | { readonly kind: "commit"; readonly changes: readonly ModelChange[] }
  | { readonly kind: "rollBack" }
  /** The outcome of a write, once the session of its transaction has ended. */
  | { readonly kind: "outcome"; readonly tokenId: number; readonly session: number }
  | { readonly kind: "noteEnd"; readonly epoch: number }
  /** One that belongs to the log. */
  | {
    readonly kind: "log";
    readonly name: LogStatementName;
    readonly parameters: readonly string[];
  }
  /** Has the log be sent over this session from here on. */
  | { readonly kind: "replicate"; readonly slot: string }
  /** The log before the position is applied. */
  | { readonly kind: "status"; readonly position: number; readonly asks: boolean };

/** The reply to a statement. */
export interface Answer {
  readonly session: number;
  readonly epoch: number;
  readonly isLocked?: boolean;
  readonly servedMs?: number;
  readonly isFenced?: boolean;
  readonly rows?: readonly (StoredRow | null)[];
  readonly versions?: readonly number[];
  /** Of a token; null: it was not applied. */
  readonly applied?: number | null;
  /** Of a statement of the log. */
  readonly result?: readonly LogRow[];
  readonly error?: { readonly message: string; readonly code: string };
}

/** A commit that is in the log. */
interface Logged {
  readonly changes: readonly (ModelChange & { readonly version: number })[];
}

/** What is on the disk: it outlives the process. */
export class DatabaseFiles {
  epoch = 0;
  servesMs = 0;
  readonly rows = new Map<string, StoredRow>();
  readonly applied = new Map<number, number>();
  /** Every version of every row, in their order. */
  readonly noted: Committed[] = [];
  readonly wal: Wal;
  /** Commits that reads do not see yet. A server that starts shows them first. */
  readonly unseen = new Set<Logged>();

  constructor(choose: (count: number) => number) {
    this.wal = new Wal(choose);
  }

  /** Puts a commit on the disk. */
  log(xid: number, changes: readonly ModelChange[]): Logged {
    const rows = new Map<string, number>();
    const versioned = changes.map((change) => {
      const version = (rows.get(change.key) ?? this.rows.get(change.key)?.version ?? 0) + 1;
      rows.set(change.key, version);
      this.noted.push({ key: change.key, value: change.value, version });
      return { ...change, version };
    });
    this.wal.append(xid, [...rows.keys()]);
    const logged = { changes: versioned };
    this.unseen.add(logged);
    return logged;
  }

  /** Reads see a commit from here on. */
  show(logged: Logged): void {
    if (!this.unseen.delete(logged)) return;
    for (const { key, value, flags, version, tokenId } of logged.changes) {
      this.rows.set(key, { value, flags, version });
      if (tokenId !== 0) this.applied.set(tokenId, version);
    }
  }
}

/** A transaction that writes. */
interface Transaction {
  readonly xid: number;
  readonly locks: ReadonlySet<string>;
  /** Null: another program's. */
  readonly session: Session | null;
  /** Its commit is in the log: it is visible soon, whatever becomes of the session. */
  isCommitting: boolean;
}

/**
 * A model of PostgreSQL, as far as an origin uses it: sessions, transactions with locks, the advisory lock of the
 * active origin, the log and its slots. A commit is on the disk at once, and reads see it a little later; its reply
 * may be lost.
 */
export class ModelDatabase {
  readonly #world: World;
  readonly #process: Process;
  readonly #files: DatabaseFiles;
  /** Longest time between a commit in the log and its being visible. */
  readonly #commitMs: number;
  readonly #logStatements: LogStatements;
  readonly #sessions = new Map<number, Session>();
  readonly #transactions = new Set<Transaction>();
  readonly #senders = new Map<Session, WalSender>();
  /** Has the lock of the active origin. */
  #origin: Session | null = null;
  /** Statements that wait for locks, the first ones first. */
  #waiting: { readonly session: Session | null; readonly act: () => boolean }[] = [];
  /** Takeovers that wait: no transaction begins before them. */
  #takeovers = 0;

  constructor(
    world: World,
    network: Network,
    process: Process,
    files: DatabaseFiles,
    commitMs: number,
  ) {
    this.#world = world;
    this.#process = process;
    this.#files = files;
    this.#commitMs = commitMs;
    for (const each of files.unseen) files.show(each);
    files.wal.recover();
    this.#logStatements = new LogStatements(files.wal, {
      running: () => [...this.#transactions].map(({ xid }) => xid),
      // A transaction whose commit is in the log delays nothing.
      writing: () => [...this.#transactions].filter((each) => !each.isCommitting),
      endSession: (id) => this.#endSoon(id),
      wait: (session, act) => this.#wait(this.#sessions.get(session)!, act),
    });
    const address = `${DATABASE_HOST}:${DATABASE_PORT}`;
    network.listen(process, address, (end) => new Session(this, end, 1 + world.choose(2 ** 31)));
  }

  opened(session: Session): void {
    this.#sessions.set(session.id, session);
  }

  /** Ends a session: its transaction is rolled back, unless its commit is in the log. */
  closed(session: Session): void {
    this.#sessions.delete(session.id);
    if (this.#origin === session) this.#origin = null;
    this.#rollBack(session);
    this.#senders.get(session)?.ended();
    this.#senders.delete(session);
    this.#waiting = this.#waiting.filter((each) => each.session !== session);
    this.#goOn();
  }

  /** Takes what a session has sent. A statement is executed some time after it has arrived. */
  execute(session: Session, statement: Statement): void {
    if (statement.kind === "status") {
      const { position, asks } = statement;
      return this.#senders.get(session)?.status(position, asks);
    }
    this.#world.after(STATEMENT_MS * this.#world.random(), this.#process, () => {
      if (!this.#sessions.has(session.id)) return;
      switch (statement.kind) {
        case "begin":
          return this.#wait(session, () => this.#begin(session, statement));
        case "takeOver":
          return this.#takeOver(session, statement.rightMs);
        case "commit":
          return this.#commit(session, statement.changes);
        case "outcome":
          return this.#outcome(session, statement);
        case "log":
          this.#logStatements.execute(statement, session.id, (more) => {
            session.answer(this.#answer(session, more));
          });
          return this.wakeReaders();
        case "replicate":
          return this.#replicate(session, statement.slot);
        default:
          return session.answer(this.#answer(session, this.#executeNow(session, statement)));
      }
    });
  }

  #answer(session: Session, more: Partial<Answer>): Answer {
    return { session: session.id, epoch: this.#files.epoch, ...more };
  }

  #executeNow(session: Session, statement: Statement): Partial<Answer> {
    const files = this.#files;
    switch (statement.kind) {
      case "origin":
        this.#origin ??= session;
        return { isLocked: this.#origin === session };
      case "unlock":
        if (this.#origin === session) this.#origin = null;
        return {};
      case "read":
        return { rows: statement.keys.map((key) => files.rows.get(key) ?? null) };
      case "noteEnd":
        if (statement.epoch === files.epoch) files.servesMs = 0;
        return {};
      default:
        this.#rollBack(session);
        return {};
    }
  }

  /** `pg_terminate_backend`: it takes the process a moment. */
  #endSoon(id: number): void {
    this.#world.after(STATEMENT_MS * this.#world.random(), this.#process, () => {
      this.#sessions.get(id)?.end();
    });
  }

  // --- locks ---------------------------------------------------------------------------------------

  /** Calls `act` until it returns true, again whenever a transaction has ended. */
  #wait(session: Session | null, act: () => boolean): void {
    if (!act()) this.#waiting.push({ session, act });
  }

  #goOn(): void {
    for (const each of this.#waiting.splice(0)) if (!each.act()) this.#waiting.push(each);
  }

  /** @returns Null: another transaction has locked one of the rows. */
  #lock(session: Session | null, keys: readonly string[]): Transaction | null {
    const others = [...this.#transactions];
    if (others.some(({ locks }) => keys.some((key) => locks.has(key)))) return null;
    const xid = this.#files.wal.nextXid++;
    const transaction = { xid, locks: new Set(keys), session, isCommitting: false };
    this.#transactions.add(transaction);
    return transaction;
  }

  #of(session: Session): Transaction | undefined {
    return [...this.#transactions].find((each) => each.session === session);
  }

  #rollBack(session: Session): void {
    const transaction = this.#of(session);
    if (transaction === undefined || transaction.isCommitting) return;
    this.#transactions.delete(transaction);
    this.#goOn();
  }

  #begin(session: Session, { keys, epoch }: Statement & { kind: "begin" }): boolean {
    if (this.#takeovers > 0) return false;
    const files = this.#files;
    if (epoch !== files.epoch) {
      session.answer(this.#answer(session, { isFenced: true }));
      return true;
    }
    if (this.#lock(session, keys) === null) return false;
    const rows = keys.map((key) => files.rows.get(key) ?? null);
    session.answer(this.#answer(session, { rows }));
    return true;
  }

  #takeOver(session: Session, rightMs: number): void {
    const files = this.#files;
    this.#takeovers++;
    const isFree = (): boolean =>
      [...this.#transactions].every(({ session: other }) => other === null);
    const act = (): boolean => {
      if (!isFree()) return false;
      this.#takeovers--;
      const servedMs = files.servesMs;
      files.epoch++;
      files.servesMs = Math.max(servedMs, rightMs);
      session.answer(this.#answer(session, { servedMs }));
      this.#world.after(0, this.#process, () => this.#goOn());
      return true;
    };
    this.#wait(session, act);
    this.#world.timer(GRACE_MS, this.#process, () => {
      const isWaiting = this.#waiting.some((each) => each.act === act);
      if (!isWaiting) return;
      for (const each of [...this.#transactions]) each.session?.end();
    });
    // A session that ends gives its place in the queue up.
    session.atEnd = () => {
      if (this.#waiting.some((each) => each.act === act)) this.#takeovers--;
    };
  }

  #commit(session: Session, changes: readonly ModelChange[]): void {
    const transaction = this.#of(session)!;
    this.#commitAs(transaction, changes, ({ changes: made }) => {
      if (!this.#sessions.has(session.id)) return;
      const versions = made.map(({ version }) => version);
      session.answer(this.#answer(session, { versions }));
    });
  }

  /** Commits: the log has it at once, and readers of the log get it; reads see it later. */
  #commitAs(
    transaction: Transaction,
    changes: readonly ModelChange[],
    done: (logged: Logged) => void,
  ): void {
    const files = this.#files;
    const logged = files.log(transaction.xid, changes);
    transaction.isCommitting = true;
    this.wakeReaders();
    const show = (): void => {
      files.show(logged);
      this.#transactions.delete(transaction);
      done(logged);
      this.#world.after(0, this.#process, () => this.#goOn());
    };
    if (this.#commitMs === 0) show();
    else this.#world.after(this.#commitMs * this.#world.random(), this.#process, show);
  }

  /** Ends the session of a write, and answers when its process cannot commit any more. */
  #outcome(session: Session, { tokenId, session: id }: Statement & { kind: "outcome" }): void {
    this.#sessions.get(id)?.end();
    this.#wait(session, () => {
      if ([...this.#transactions].some((each) => each.session?.id === id)) return false;
      const applied = this.#files.applied.get(tokenId) ?? null;
      session.answer(this.#answer(session, { applied }));
      return true;
    });
  }

  // --- the log -------------------------------------------------------------------------------------

  #replicate(session: Session, name: string): void {
    const { wal } = this.#files;
    const slot = wal.slots.get(name);
    const problem = slot === undefined
      ? `replication slot "${name}" does not exist`
      : slot.isLost
      ? `can no longer get changes from replication slot "${name}"`
      : slot.active !== 0
      ? `replication slot "${name}" is active for PID ${slot.active}`
      : null;
    if (slot === undefined || problem !== null) {
      const error = { message: problem!, code: "55000" };
      return session.answer(this.#answer(session, { error }));
    }
    slot.active = session.id;
    session.answer(this.#answer(session, {}));
    const sender = new WalSender(
      this.#world,
      this.#process,
      wal,
      slot,
      (line) => session.say(line),
      () => session.end(),
    );
    this.#senders.set(session, sender);
  }

  /** Readers get what the log has more. */
  wakeReaders(): void {
    for (const sender of this.#senders.values()) sender.wake();
  }

  /** Ends the sessions to which the log is sent. */
  endReaders(): void {
    for (const session of [...this.#senders.keys()]) session.end();
  }

  /**
   * Writes a row as another program on the database's host does.
   *
   * @param done Called when the transaction has ended, with the position after it; null: it was rolled back.
   */
  writeDirectly(key: string, value: string, done: (position: number | null) => void): void {
    let isOver = false;
    let position: number | null = null;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      this.#process.atEnd.delete(end);
      done(position);
    };
    this.#process.atEnd.add(end);
    const random = (): number => this.#world.random();
    const commit = (transaction: Transaction): void => {
      const change = { key, value, tokenId: 0, flags: 0 };
      this.#commitAs(transaction, [change], end);
      position = this.#files.wal.end;
    };
    this.#wait(null, () => {
      const transaction = this.#lock(null, [key]);
      if (transaction === null) return false;
      const ms = random() * (random() < SLOW_DIRECTS ? SLOW_DIRECT_MS : DIRECT_MS);
      this.#world.after(ms, this.#process, () => commit(transaction));
      return true;
    });
  }
}

/** A session: statements and answers are lines of JSON. */
class Session implements Receiver {
  readonly id: number;
  atEnd: () => void = () => {};
  readonly #database: ModelDatabase;
  readonly #end: End;
  #text = "";

  constructor(database: ModelDatabase, end: End, id: number) {
    this.#database = database;
    this.#end = end;
    this.id = id;
    database.opened(this);
  }

  received(bytes: Uint8Array): void {
    const lines = `${this.#text}${latin1Text(bytes)}`.split("\n");
    this.#text = lines.pop()!;
    for (const line of lines) this.#database.execute(this, JSON.parse(line));
  }

  ended(): void {
    this.end();
  }

  broken(): void {
    this.end();
  }

  answer(answer: Answer): void {
    this.say(answer);
  }

  say(line: object): void {
    this.#end.send(latin1Bytes(`${JSON.stringify(line)}\n`));
  }

  /** Ends it, as its peer or `pg_terminate_backend` does. */
  end(): void {
    this.#end.close();
    this.atEnd();
    this.atEnd = () => {};
    this.#database.closed(this);
  }
}
