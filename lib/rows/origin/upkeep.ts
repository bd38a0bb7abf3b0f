import { printable } from "../../../store/base/key_text.ts";
import { reasonOf } from "../../process/reason.ts";
import type { Backend } from "../../databases/base/backend.ts";
import type { Flows, Right } from "../flows/flows.ts";
import type { RowToken } from "../flows/token_states.ts";
import type { Follower } from "../follow/follower.ts";
import type { LagGuard } from "../follow/lag_guard.ts";
import type { RowsMessage } from "../messages.ts";
import type { NodeServer } from "../nodes/node_server.ts";
import type { RowsOptions } from "../options.ts";
import type { RowLoop } from "../row_loop.ts";
import type { RowsMeter } from "../meter/rows_meter.ts";
import { BrokenViews } from "./broken_views.ts";
import { rowStats } from "./row_stats.ts";
import type { StepRunner } from "./step_runner.ts";

/** Confirmations that the database is asked for while one right to serve rows lasts. */
const CONFIRMATIONS = 4;
/** Update tokens that the dashboard shows. */
const TOKENS_SENT_MAX = 1000;
/** How often outcomes that are unknown are asked for, and the state is sent. */
const TICK_MS = 1000;
/** Ticks after which a problem is told: one that ends at once is only in /health. */
const PROBLEM_TICKS = 2;
/** How often the database forgets old tokens. */
const PURGE_INTERVAL_MS = 60_000;
/** Longest pause between two questions for outcomes that are unknown. */
const RESOLVE_PAUSE_MS_MAX = 30_000;

/** The time of upkeep; tests move another one. */
export interface UpkeepClock {
  /** Never runs backwards. */
  nowMs(): number;
  unixMs(): number;
  /** Calls `act` every `ms`. @returns Ends that. */
  every(ms: number, act: () => void): () => void;
}

export const SYSTEM_CLOCK: UpkeepClock = {
  nowMs: () => performance.now(),
  unixMs: () => Date.now(),
  every(ms, act): () => void {
    const timer = setInterval(act, ms);
    return () => clearInterval(timer);
  },
};

/** The parts of an origin that its upkeep asks. */
export interface UpkeepContext {
  readonly clock: UpkeepClock;
  readonly options: RowsOptions;
  readonly backend: Backend;
  readonly flows: Flows;
  readonly runner: StepRunner;
  readonly right: Right;
  /** Null: the log is not followed. */
  readonly follower: Follower | null;
  /** Null: the lag has no effect on what is served. */
  readonly lagGuard: LagGuard | null;
  readonly nodeServer: NodeServer;
  readonly loop: RowLoop;
  /** Null: nothing is compared with the database. */
  readonly meter: Pick<RowsMeter, "stats" | "problem"> | null;
  readonly say: (message: RowsMessage) => void;
}

/** What an origin does again and again: renews its right, asks for outcomes that are unknown, sends its state. */
export class Upkeep {
  readonly #context: UpkeepContext;
  readonly #brokenViews: BrokenViews;
  #timers: readonly (() => void)[] = [];
  #isConfirming = false;
  #isConfirmed = true;
  #isDeposed = false;
  #isUnsafeTold = false;
  #isTicking = false;
  #isProblemTold = false;
  #problemTicks = 0;
  #purgeMs: number;
  #resolveMs = 0;
  #resolvePauseMs = TICK_MS;

  constructor(context: UpkeepContext) {
    this.#context = context;
    this.#brokenViews = new BrokenViews((event) => context.say({ kind: "event", event }));
    this.#purgeMs = context.clock.nowMs();
  }

  /** Begins, and sends the state. */
  start(): void {
    const { clock, options } = this.#context;
    const confirmMs = Math.min(TICK_MS, options.memberTimeMs / CONFIRMATIONS);
    this.#timers = [
      clock.every(TICK_MS, () => void this.#tick()),
      clock.every(confirmMs, () => void this.#confirm()),
    ];
    this.#sendState();
  }

  stop(): void {
    for (const end of this.#timers) end();
    this.#timers = [];
  }

  /** Sends the state now: something has changed that operators should not learn a second later. */
  tell(): void {
    if (this.#timers.length > 0) this.#sendState();
  }

  /** Renews the right to serve rows; learns whether another origin has taken over. */
  async #confirm(): Promise<void> {
    if (this.#isConfirming) return;
    this.#isConfirming = true;
    const { runner, flows, right, options, loop } = this.#context;
    try {
      await runner.run(flows.renewRight(right, options.memberTimeMs));
      this.#isConfirmed = true;
    } catch (error) {
      this.#isConfirmed = false;
      loop.problem = reasonOf(error);
    }
    this.#isConfirming = false;
    if (flows.isDeposed) this.#sendState();
  }

  async #tick(): Promise<void> {
    const { clock, options, backend, follower, lagGuard, nodeServer, loop } = this.#context;
    void follower?.measure();
    lagGuard?.watch();
    nodeServer.watch();
    this.#tellProblem();
    if (!this.#isConfirmed || this.#isTicking) return this.#sendState();
    const nowMs = clock.nowMs();
    this.#isTicking = true;
    try {
      await backend.check();
      if (nowMs >= this.#resolveMs) loop.problem = null;
      await this.#resolveUnknown(nowMs);
      if (nowMs - this.#purgeMs >= PURGE_INTERVAL_MS) {
        this.#purgeMs = nowMs;
        await backend.purgeExpired();
        await backend.purgeApplied(clock.unixMs() - options.appliedTtlSec * 1000);
      }
    } catch (error) {
      loop.problem = reasonOf(error);
    }
    this.#isTicking = false;
    this.#sendState();
  }

  /** Asks for the outcomes of writes that nobody waits for any more, less and less often. */
  async #resolveUnknown(nowMs: number): Promise<void> {
    if (nowMs < this.#resolveMs) return;
    const { runner, flows } = this.#context;
    const left = await runner.run(flows.resolveUnknown());
    this.#resolvePauseMs = left === 0
      ? TICK_MS
      : Math.min(2 * this.#resolvePauseMs, RESOLVE_PAUSE_MS_MAX);
    this.#resolveMs = nowMs + this.#resolvePauseMs;
  }

  get #lagProblem(): string | null {
    const { follower, options } = this.#context;
    if (follower === null) return null;
    const { problem, lagMs } = follower;
    if (problem !== null) return problem;
    if (lagMs <= options.lagMaxMs) return null;
    return `changes of rows have not been applied for ${lagMs} ms, more than --lag-max`;
  }

  get #oldestTokens(): (RowToken & { readonly ageMs: number })[] {
    const nowMs = this.#context.clock.nowMs();
    const oldest = this.#context.flows.states.list().take(TOKENS_SENT_MAX);
    return [...oldest.map((token) => ({ ...token, ageMs: nowMs - token.sinceMs }))];
  }

  /** Tells of a problem that has lasted for two ticks, and of its end. Others tell of the log's own problems. */
  #tellProblem(): void {
    const { loop, follower } = this.#context;
    const isLogBroken = (follower?.problem ?? null) !== null;
    if (loop.problem === null && isLogBroken) return;
    const problem = loop.problem ?? this.#lagProblem;
    this.#problemTicks = problem === null ? 0 : this.#problemTicks + 1;
    if (problem === null ? !this.#isProblemTold : this.#problemTicks !== PROBLEM_TICKS) return;
    this.#isProblemTold = problem !== null;
    const event = problem === null
      ? { level: "info", event: "rows_well", message: "rows are well again", fields: {} } as const
      : {
        level: "error",
        event: "rows_unwell",
        message: `rows are not well: ${problem}`,
        fields: { reason: problem },
      } as const;
    this.#context.say({ kind: "event", event });
  }

  /** Tells once that caches of clients may be stale. */
  #tellUnsafe(): void {
    const { firstUnsafe } = this.#context.flows.ugetKeys;
    if (firstUnsafe === "" || this.#isUnsafeTold) return;
    this.#isUnsafeTold = true;
    const key = printable(firstUnsafe);
    const message =
      `caches of clients may be stale: ${key} has changed after uget had answered it with C, ` +
      "and no writer with an update token has deleted it there; use nodes (--origin), see docs/rows.md";
    this.#context.say({
      kind: "event",
      event: { level: "warning", event: "uget_unsafe", message, fields: { key } },
    });
  }

  #sendState(): void {
    const { flows, runner, follower, nodeServer, loop, meter, say } = this.#context;
    const { isDeposed, deposedText } = flows;
    if (isDeposed && !this.#isDeposed) {
      this.#isDeposed = true;
      say({ kind: "deposed", reason: deposedText });
    }
    this.#tellUnsafe();
    this.#brokenViews.watch(runner.views.broken);
    const problem = isDeposed
      ? deposedText
      : loop.problem ?? this.#lagProblem ?? this.#brokenViews.problem ?? meter?.problem ?? null;
    const nodes = nodeServer.states;
    const stats = [...rowStats(flows, runner, nodes, follower ?? undefined), ...meter?.stats ?? []];
    say({ kind: "state", stats, problem, nodes, tokens: this.#oldestTokens });
  }
}
