import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import type { End, Network, Receiver } from "./network.ts";
import type { Committed } from "./rows_check.ts";
import type { Process, World } from "./world.ts";

export const DATABASE_HOST = "database";
export const DATABASE_PORT = 5432;
/** Longest time of a statement that waits for nothing, in milliseconds. */
const STATEMENT_MS = 0.5;
/** How long a takeover waits for the writes of the origin before; then it ends their sessions. */
const GRACE_MS = 1000;

/** A row as the database keeps it; null: it was deleted. Characters of texts are bytes. */
export interface StoredRow {
  readonly value: string | null;
  readonly flags: number;
  readonly version: number;
}

/** A change of a transaction. */
export interface ModelChange {
  readonly key: string;
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
  | { readonly kind: "noteEnd"; readonly epoch: number };

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
}

/** What is on the disk: it outlives the process. */
export class DatabaseFiles {
  epoch = 0;
  servesMs = 0;
  readonly rows = new Map<string, StoredRow>();
  readonly applied = new Map<number, number>();
  /** Every version of every row, in their order. */
  readonly noted: Committed[] = [];
}

/**
 * A model of PostgreSQL, as far as an origin uses it: sessions, transactions with locks, the advisory lock of the
 * active origin. A commit is on the disk at once; its reply may be lost.
 */
export class ModelDatabase {
  readonly #world: World;
  readonly #process: Process;
  readonly #files: DatabaseFiles;
  readonly #sessions = new Map<number, Session>();
  /** Has the lock of the active origin. */
  #origin: Session | null = null;
  /** Statements that wait for locks, the first ones first. */
  #waiting: { readonly session: Session; readonly act: () => boolean }[] = [];
  /** Takeovers that wait: no transaction begins before them. */
  #takeovers = 0;

  constructor(world: World, network: Network, process: Process, files: DatabaseFiles) {
    this.#world = world;
    this.#process = process;
    this.#files = files;
    const address = `${DATABASE_HOST}:${DATABASE_PORT}`;
    network.listen(process, address, (end) => new Session(this, end, world.choose(2 ** 31)));
  }

  opened(session: Session): void {
    this.#sessions.set(session.id, session);
  }

  /** Ends a session: its transaction is rolled back. */
  closed(session: Session): void {
    this.#sessions.delete(session.id);
    if (this.#origin === session) this.#origin = null;
    session.locks = null;
    this.#waiting = this.#waiting.filter((each) => each.session !== session);
    this.#goOn();
  }

  /** Executes a statement, some time after it has arrived. */
  execute(session: Session, statement: Statement): void {
    this.#world.after(STATEMENT_MS * this.#world.random(), this.#process, () => {
      if (!this.#sessions.has(session.id)) return;
      switch (statement.kind) {
        case "begin":
          return this.#wait(session, () => this.#begin(session, statement));
        case "takeOver":
          return this.#takeOver(session, statement.rightMs);
        case "outcome":
          this.#sessions.get(statement.session)?.end();
          return session.answer(this.#answer(session, {
            applied: this.#files.applied.get(statement.tokenId) ?? null,
          }));
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
      case "commit":
        return { versions: this.#commit(session, statement.changes) };
      case "noteEnd":
        if (statement.epoch === files.epoch) files.servesMs = 0;
        return {};
      default:
        session.locks = null;
        this.#goOn();
        return {};
    }
  }

  // --- locks ---------------------------------------------------------------------------------------

  /** Calls `act` until it returns true, again whenever a lock is free. */
  #wait(session: Session, act: () => boolean): void {
    if (!act()) this.#waiting.push({ session, act });
  }

  #goOn(): void {
    for (const each of this.#waiting.splice(0)) if (!each.act()) this.#waiting.push(each);
  }

  #begin(session: Session, { keys, epoch }: Statement & { kind: "begin" }): boolean {
    if (this.#takeovers > 0) return false;
    const files = this.#files;
    if (epoch !== files.epoch) {
      session.answer(this.#answer(session, { isFenced: true }));
      return true;
    }
    const others = [...this.#sessions.values()].filter((each) => each !== session);
    if (others.some(({ locks }) => keys.some((key) => locks?.has(key)))) return false;
    session.locks = new Set(keys);
    const rows = keys.map((key) => files.rows.get(key) ?? null);
    session.answer(this.#answer(session, { rows }));
    return true;
  }

  #takeOver(session: Session, rightMs: number): void {
    const files = this.#files;
    this.#takeovers++;
    const isFree = (): boolean => this.#sessions.values().every(({ locks }) => locks === null);
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
      for (const each of [...this.#sessions.values()]) if (each.locks !== null) each.end();
    });
    // A session that ends gives its place in the queue up.
    session.atEnd = () => {
      if (this.#waiting.some((each) => each.act === act)) this.#takeovers--;
    };
  }

  #commit(session: Session, changes: readonly ModelChange[]): number[] {
    const files = this.#files;
    const versions = changes.map(({ key, tokenId, flags, value }) => {
      const version = (files.rows.get(key)?.version ?? 0) + 1;
      files.rows.set(key, { value, flags, version });
      files.applied.set(tokenId, version);
      files.noted.push({ key, value, version });
      return version;
    });
    session.locks = null;
    this.#world.after(0, this.#process, () => this.#goOn());
    return versions;
  }
}

/** A session: statements and answers are lines of JSON. */
class Session implements Receiver {
  readonly id: number;
  /** Rows that its transaction has locked, and with them the epoch; null: it has none. */
  locks: ReadonlySet<string> | null = null;
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
    this.#end.send(latin1Bytes(`${JSON.stringify(answer)}\n`));
  }

  /** Ends it, as its peer or `pg_terminate_backend` does. */
  end(): void {
    this.#end.close();
    this.atEnd();
    this.atEnd = () => {};
    this.#database.closed(this);
  }
}
