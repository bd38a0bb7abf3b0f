import type { TransportEvent } from "../../net/transport.ts";
import { runFlow } from "../../flow/flow.ts";
import { reasonOf } from "../../process/reason.ts";
import type { Backend } from "../../databases/base/backend.ts";
import { type Changes, type ChangeStream, LogBusyError } from "../../databases/base/changes.ts";
import { hasEveryRow, type KeySet } from "../../databases/views/key_set.ts";
import { followLog, type LogStep } from "../flows/log_flow.ts";
import type { FlowStep } from "../flows/steps.ts";

/**
 * The first and the longest pause before the log is opened again: rows that have changed stay meanwhile. The next pause
 * is twice as long if the log has not lasted for the pause before it.
 */
const RETRY_FIRST_MS = 20;
const RETRY_MS = 500;

/** The part of its origin that follows the log with it. */
export interface LogContext {
  /** Learns which rows have changed, before they are deleted. */
  note(changed: KeySet): void;
  /** Executes a step of flows of rows. */
  take(step: FlowStep): unknown;
}

/** Counters and state, for `stats rows`. */
export interface FollowCounts {
  changes: number;
  keys: number;
  /** Floods of changes, each of which has deleted every row. */
  floods: number;
  /** Gaps in the log, each of which has deleted every row. */
  gaps: number;
}

/** A caller of `wait`. */
interface Waiter {
  readonly position: bigint;
  readonly resolve: (isApplied: boolean) => void;
}

/** Follows the database's log, by the flow `followLog`: opens it again when it ends, and knows how far behind it is. */
export class Follower {
  readonly counts: FollowCounts = { changes: 0, keys: 0, floods: 0, gaps: 0 };
  readonly #backend: Backend;
  readonly #context: LogContext;
  readonly #report: (event: TransportEvent) => void;
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #waiters = new Set<Waiter>();
  #stream: ChangeStream | null = null;
  /** A log has ended and the next has not begun. No position counts then: that of another server may be lower. */
  #isBetweenLogs = false;
  #isStopping = false;
  #position = 0n;
  #isUnbounded = false;
  #problem: string | null = null;
  /** All changes that were committed by then are applied; before the first such moment, the start. */
  #caughtUpMs = performance.now();
  /** An end of the log, and when it was asked for; null: everything before the last one is applied. */
  #sample: { readonly atMs: number; readonly end: bigint } | null = null;
  #end = 0n;
  /** The first stream, which `open` has opened. */
  #first: ChangeStream | null = null;

  constructor(
    backend: Backend,
    context: LogContext,
    report: (event: TransportEvent) => void,
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#backend = backend;
    this.#context = context;
    this.#report = report;
    this.#sleep = sleep;
  }

  /**
   * Opens the log, after the takeover: ends the connection of the origin before. Waits while it can only be opened
   * later, and says why.
   *
   * @throws When it cannot be followed.
   */
  async open(): Promise<void> {
    while (this.#first === null) {
      try {
        this.#first = await this.#backend.openChanges(true);
      } catch (error) {
        if (!(error instanceof LogBusyError)) throw error;
        this.#fail(error.message);
        await this.#sleep(RETRY_MS);
      }
    }
    this.#problem = null;
    const { warning } = this.#first;
    if (warning === null) return;
    this.#isUnbounded = true;
    this.#report({ level: "warning", event: "log_unbounded", message: warning, fields: {} });
  }

  /** Why the log is not followed, or is behind; null: it is followed. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Everything before this position is applied. */
  get position(): bigint {
    return this.#position;
  }

  /** Bytes of the log that are known and not applied. */
  get lagBytes(): number {
    return Math.max(0, Number(this.#end - this.#position));
  }

  /** All changes that were committed by then are applied; before the first such moment, the start. */
  get caughtUpMs(): number {
    return this.#caughtUpMs;
  }

  /** How long ago that is. */
  get lagMs(): number {
    return Math.round(performance.now() - this.#caughtUpMs);
  }

  /** Bytes of the log that the database keeps. */
  get retainedBytes(): number {
    return this.#stream?.retainedBytes ?? 0;
  }

  /** Whether the database keeps its log without bound while no origin reads it. */
  get isUnbounded(): boolean {
    return this.#isUnbounded;
  }

  /** Learns the end of the log, for the lag. To be called about once a second. */
  async measure(): Promise<void> {
    const atMs = performance.now();
    const stream = this.#stream;
    try {
      this.#end = await this.#backend.endOfLogOnDisk();
    } catch {
      // The lag grows, and the loop says why.
      return;
    }
    // The log that is not read may lack changes.
    if (this.#problem !== null || this.#stream !== stream) return;
    this.#sample ??= { atMs, end: this.#end };
    this.#advance(this.#position);
  }

  /** Follows the log until `stop`. */
  async run(): Promise<void> {
    let pauseMs = 0;
    while (!this.#isStopping) {
      const openedMs = performance.now();
      try {
        const stream = this.#first ?? await this.#backend.openChanges(false);
        this.#first = null;
        this.#stream = stream;
        await this.#follow(stream);
      } catch (error) {
        this.#isBetweenLogs = true;
        this.#sample = null;
        if (!this.#isStopping) this.#fail(reasonOf(error));
      }
      await this.#stream?.close();
      const hasLasted = performance.now() - openedMs >= pauseMs;
      pauseMs = hasLasted ? RETRY_FIRST_MS : Math.min(2 * pauseMs, RETRY_MS);
      if (!this.#isStopping) await this.#sleep(pauseMs);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const waiter of this.#waiters) waiter.resolve(false);
    await (this.#stream ?? this.#first)?.close();
  }

  /**
   * Waits until every change before the position is applied.
   *
   * @param signal Ends the wait.
   * @returns Whether that was within `ms`, and before the signal.
   */
  async wait(position: bigint, ms: number, signal?: AbortSignal): Promise<boolean> {
    if (!this.#isBetweenLogs && position <= this.#position) return true;
    if (signal?.aborted) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter = { position, resolve };
    const timer = setTimeout(() => resolve(false), ms);
    const giveUp = (): void => resolve(false);
    signal?.addEventListener("abort", giveUp);
    this.#waiters.add(waiter);
    this.#hasten();
    const isApplied = await promise;
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
    this.#waiters.delete(waiter);
    return isApplied;
  }

  async #follow(stream: ChangeStream): Promise<void> {
    if (stream.gap !== null) this.#reportGap(stream.gap);
    const flow = followLog(stream.gap === null, (changed) => this.#context.note(changed));
    await runFlow(flow, (step) => this.#take(step, stream));
  }

  /** Executes one step. @throws Why the log cannot be read, or that `stop` was called. */
  async #take(step: LogStep | FlowStep, stream: ChangeStream): Promise<unknown> {
    switch (step.kind) {
      case "begin": {
        // What arrives from here on is not applied when the log has begun.
        const { endPosition } = stream;
        await stream.begin();
        this.#isBetweenLogs = false;
        return this.#advance(endPosition);
      }
      case "next":
        return this.#count(await stream.next());
      case "confirm":
        await stream.confirm(step.position);
        this.#advance(step.position);
        return this.#clear();
      default:
        return await this.#context.take(step);
    }
  }

  #hasten(): void {
    if (!this.#isBetweenLogs) this.#stream?.hasten();
  }

  /** Every row is deleted, because changes may be missing. */
  #reportGap(gap: string): void {
    this.counts.gaps++;
    this.#problem = `cached rows are being deleted: ${gap}`;
    this.#report({
      level: "warning",
      event: "log_gap",
      message: `changes of rows may be missing: ${gap}; all cached rows are deleted`,
      fields: { reason: gap },
    });
  }

  #count(changes: Changes): Changes {
    this.counts.changes += changes.count;
    if (hasEveryRow(changes)) this.counts.floods++;
    else this.counts.keys += changes.keys.length + changes.prefixes.length;
    return changes;
  }

  #advance(position: bigint): void {
    this.#position = position;
    if (this.#sample !== null && this.#sample.end <= position) {
      this.#caughtUpMs = this.#sample.atMs;
      this.#sample = null;
    }
    for (const waiter of this.#waiters) {
      if (waiter.position > position) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(true);
    }
    if (this.#waiters.size > 0) this.#hasten();
  }

  #fail(reason: string): void {
    if (this.#problem === reason) return;
    this.#problem = reason;
    this.#report({
      level: "error",
      event: "log_not_followed",
      message: `changes of rows are not applied: ${reason}; retrying`,
      fields: { reason },
    });
  }

  #clear(): void {
    if (this.#problem === null) return;
    this.#problem = null;
    this.#report({
      level: "info",
      event: "log_followed",
      message: "changes of rows are applied",
      fields: {},
    });
  }
}
