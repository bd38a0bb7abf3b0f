import type { Write, WriteOutcome, WriteResult } from "../base/backend.ts";
import { POSTPONED } from "../base/found.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";
import { bytesOf, storedAs } from "./columns.ts";
import { arrayOf, failed, WriteGroup } from "./group.ts";
import type { Pool } from "./pool.ts";
import {
  isLockTimeout,
  isReadOnly,
  isRefusal,
  isRowError,
  isTimeout,
  type ServerProcess,
  type Session,
} from "./session.ts";
import { foundIn, LOCK_EPOCH, readEpoch, type Statements } from "./statements.ts";

/** Time-outs of statements that a transaction may take. */
export const STATEMENTS_IN_WRITE = 4;
/** Attempts of a write whose key another session inserts between its lookup and its insertion. */
const INSERTIONS_MAX = 5;
/**
 * Waits for a lock in the time of a write. After one, a group continues without the locked rows. A write whose time is
 * over has one left.
 */
const LOCK_WAITS = 8;
/** Pause between two checks of a process that still runs. */
const OUTCOME_POLL_MS = 50;

const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
/** Bounds the later statements of a transaction, in milliseconds. */
const BOUND_STATEMENTS = "SELECT set_config('statement_timeout', $1, true)";

/** Appends the writers' tags to the session's name in pg_stat_activity until the transaction ends. */
const NAME_WRITER =
  "SELECT set_config('application_name', current_setting('application_name') || ' ' || $1, true)";

export const READ_ONLY = "the database is read only: set default_transaction_read_only to off";
const VANISHED = failed("the row appears and vanishes: another program writes to the table");

/** How far a transaction has come. */
interface Progress {
  /** When the time of its oldest write is over. */
  readonly untilMs: number;
  /** The process that has got its COMMIT; null: none has. */
  process: ServerProcess | null;
}

/** The writes of a backend: groups, each in a transaction, and their outcomes. */
export class Writes {
  readonly #pool: Pool;
  #statements: Statements;
  readonly #timeoutMs: number;
  readonly #nowUnixMs: () => number;
  /** The server's processes that have not answered a COMMIT, by token. */
  readonly #unanswered = new Map<number, ServerProcess>();

  constructor(
    pool: Pool,
    statements: Statements,
    nowUnixMs: () => number,
  ) {
    this.#pool = pool;
    this.#statements = statements;
    this.#timeoutMs = pool.settings.timeoutMs;
    this.#nowUnixMs = nowUnixMs;
  }

  /** Writes to columns of other types from here on. */
  use(statements: Statements): void {
    this.#statements = statements;
  }

  /**
   * `Backend.writeGroup`
   *
   * @param untilMs When the time of the group's oldest write is over: it is answered then, and so are all.
   */
  async write(
    writes: readonly Write[],
    epoch: number,
    untilMs = this.#endOfTime(writes),
    attempts = INSERTIONS_MAX,
  ): Promise<readonly WriteResult[]> {
    const group = new WriteGroup(writes, this.#statements);
    const progress: Progress = { untilMs, process: null };
    try {
      const left = await this.#pool.use(
        (session) => this.#writeWith(session, group, epoch, progress),
        STATEMENTS_IN_WRITE,
      );
      if ("kind" in left) return group.end(left);
      if (left.length === 0 || attempts === 1) return group.end(VANISHED);
      // Another session has inserted their keys since.
      const again = left.map((at) => writes[at]!);
      return group.place(left, await this.write(again, epoch, untilMs, attempts - 1));
    } catch (error) {
      if (writes.length > 1 && isRowError(error)) {
        return await this.#writeHalves(writes, epoch, untilMs);
      }
      const reason = isReadOnly(error) ? READ_ONLY : reasonOf(error);
      if (writes.length > 1 && isLockTimeout(error)) {
        return await this.#writeUnlocked(writes, epoch, untilMs, reason);
      }
      if (isTimeout(error) && isOver(untilMs)) return this.#endTime(writes, reason);
      // Before its COMMIT is sent, a transaction that loses its connection is rolled back.
      if (progress.process === null || isRefusal(error)) return group.end(failed(reason));
      for (const { tokenId } of writes) this.#unanswered.set(tokenId, progress.process);
      return group.end({ kind: "unknown", reason });
    }
  }

  /** Returns when the time of the oldest of these writes is over. */
  #endOfTime(writes: readonly Write[]): number {
    const nowMs = performance.now();
    return Math.min(...writes.map(({ sinceMs = nowMs }) => sinceMs)) + this.#timeoutMs;
  }

  /** Ends a group that timed out: writes past their own deadline fail, the others are postponed. */
  #endTime(writes: readonly Write[], reason: string): WriteResult[] {
    const sinceMaxMs = performance.now() - this.#timeoutMs;
    return writes.map(({ sinceMs = 0 }) => sinceMs <= sinceMaxMs ? failed(reason) : POSTPONED);
  }

  /** Writes a group of which one write is refused: the others succeed. */
  async #writeHalves(
    writes: readonly Write[],
    epoch: number,
    untilMs: number,
  ): Promise<readonly WriteResult[]> {
    const middle = writes.length >> 1;
    const first = await this.write(writes.slice(0, middle), epoch, untilMs);
    const second = writes.slice(middle);
    // One that is to go again must not be overtaken by a later write of its key.
    const results = first.includes(POSTPONED)
      ? this.#endTime(second, "an earlier write of the group has waited too long")
      : await this.write(second, epoch, untilMs);
    return [...first, ...results];
  }

  /**
   * Writes a group in two, at the same time: the rows that another session has locked, and the others.
   *
   * @param reason Why the group was not written at once.
   */
  async #writeUnlocked(
    writes: readonly Write[],
    epoch: number,
    untilMs: number,
    reason: string,
  ): Promise<readonly WriteResult[]> {
    const { types, lockedRows } = this.#statements;
    const keys = arrayOf(writes.map(({ key }) => storedAs(latin1Bytes(key), types.key) ?? null));
    const rows = await this.#pool.query(lockedRows, [keys]);
    const locked = new Set(rows.map((row) => latin1Text(bytesOf(row["key"]))));
    const hasTime = !isOver(untilMs);
    // A row that another session inserts is locked, and cannot be seen.
    if (locked.size === 0 && hasTime) return await this.#writeHalves(writes, epoch, untilMs);
    const isLocked = ({ key }: Write): boolean => locked.size === 0 || locked.has(key);
    const waiting = writes.filter(isLocked);
    const free = writes.filter((write) => !isLocked(write));
    const parts = await Promise.all([
      hasTime ? this.write(waiting, epoch, untilMs) : this.#endTime(waiting, reason),
      free.length === 0 ? [] : this.write(free, epoch, untilMs),
    ]);
    const [waited, written] = parts.map((results) => results.values());
    return writes.map((write) => (isLocked(write) ? waited : written)!.next().value!);
  }

  /**
   * Executes a transaction: its statements are sent together, with its COMMIT. Those that lock and read the rows, for
   * changes that depend on them, are sent before.
   *
   * @returns The result of all writes; or the indexes of those that wrote nothing.
   */
  async #writeWith(
    session: Session,
    group: WriteGroup,
    epoch: number,
    progress: Progress,
  ): Promise<WriteResult | number[]> {
    const { owners, statements } = group;
    const partMs = Math.ceil(this.#timeoutMs / LOCK_WAITS);
    // Longer than the wait for a lock, after which a group continues.
    const boundMs = Math.ceil(Math.max(progress.untilMs - performance.now(), partMs)) + partMs;
    const isLate = boundMs < this.#timeoutMs;
    // A write alone waits as long as its statement may.
    const lockTimeout = group.writes.length === 1 ? "0" : `${partMs}`;
    const hasBegun = group.isComputed || owners !== "" || isLate;
    const begun = hasBegun ? [session.query(BEGIN)] : [];
    if (isLate) begun.push(session.query(BOUND_STATEMENTS, [`${boundMs}`]));
    if (owners !== "") begun.push(session.query(NAME_WRITER, [owners]));
    try {
      if (group.isComputed) {
        // In this order: after the wait for the lock the rows are read again.
        const [[origin], rows] = await Promise.all([
          session.query(LOCK_EPOCH, [epoch, lockTimeout]),
          session.query(statements.lockRows, [group.keys]),
          ...begun.splice(0),
        ]);
        if (origin === undefined) {
          const fenced = { kind: "fenced", epoch: await readEpoch(session) } as const;
          await session.rollBack();
          return fenced;
        }
        for (const row of rows) {
          group.found(latin1Text(bytesOf(row["key"])), foundIn(row, this.#nowUnixMs()));
        }
      }
      group.decide();
      const parameters = group.parameters(epoch, this.#nowUnixMs(), lockTimeout);
      if (parameters === null) {
        if (hasBegun) await session.rollBack();
        return group.committed(new Map());
      }
      progress.process = session.process;
      const [rows, isCommitted] = await Promise.all([
        session.query(statements.write, parameters),
        hasBegun ? session.commit() : true,
        ...begun,
      ]);
      if (!isCommitted) return failed("the database rolled the transaction back");
      if (rows.length === 0) {
        const now = await readEpoch(session);
        if (now !== epoch) return { kind: "fenced", epoch: now };
      }
      const versions = rows.map((row) => [Number(row["token"]), Number(row["version"])] as const);
      return group.committed(new Map(versions));
    } catch (error) {
      if (hasBegun) await session.rollBack();
      throw error;
    }
  }

  /** `Backend.outcome` */
  async outcome(tokenId: number): Promise<WriteOutcome> {
    try {
      return await this.#pool.use(
        (session) => this.#outcomeWith(session, tokenId),
        STATEMENTS_IN_WRITE,
      );
    } catch (error) {
      return { kind: "unknown", reason: reasonOf(error) };
    }
  }

  async #outcomeWith(session: Session, tokenId: number): Promise<WriteOutcome> {
    const process = this.#unanswered.get(tokenId);
    if (process !== undefined && !await this.#hasEnded(session, process)) {
      return { kind: "unknown", reason: "the transaction still runs" };
    }
    const [row] = await session.query("SELECT version FROM leased_applied WHERE token = $1", [
      tokenId,
    ]);
    this.#unanswered.delete(tokenId);
    return row === undefined
      ? { kind: "notApplied" }
      : { kind: "committed", version: Number(row["version"]) };
  }

  /** Ends the process that got an unanswered transaction, and waits for its end for a while. */
  async #hasEnded(session: Session, { pid, startedAt }: ServerProcess): Promise<boolean> {
    for (let waitedMs = 0;; waitedMs += OUTCOME_POLL_MS) {
      // One that has begun later has the same number, and another connection.
      const rows = await session.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity($1) WHERE backend_start = $2::timestamptz",
        [pid, startedAt],
      );
      if (rows.length === 0) return true;
      if (waitedMs >= this.#timeoutMs) return false;
      await pause(OUTCOME_POLL_MS);
    }
  }
}

/** @param untilMs On the clock of `performance.now()`. */
function isOver(untilMs: number): boolean {
  return performance.now() >= untilMs;
}
