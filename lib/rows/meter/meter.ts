import type { Found } from "../../databases/base/backend.ts";
import type { TransportEvent } from "../../net/transport.ts";
import { printable } from "../../../store/base/key_text.ts";
import { reasonOf } from "../../process/reason.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import { compare, type Comparison, type Hit, isSameHit, mayReturn } from "./comparison.ts";
import { type Provenance, provenanceText } from "./provenance.ts";
import { SampleWindow } from "./window.ts";

/** A sample this often at least, while there is something to compare: 8,640 a day. */
const REST_MS = 10_000;
/** Samples of a tick at most. */
const TICK_SAMPLES_MAX = 20;
/** The share of the time that the database may work for samples, and what it may work in advance. */
const DATABASE_SHARE = 0.01;
const DATABASE_ADVANCE_MS = 1000;
/** Changed keys that are remembered, and ticks for which their next hit is awaited. */
const CHANGED_MAX = 64;
const CHANGED_TICKS = 10;
/** Keys of clients that are looked for a hit, for a sample. */
const HIT_TRIES = 3;
/** Comparisons of a key that changes all the time. */
const UNCLEAR_TRIES = 3;
/** With a log: further looks at a value that must all find it the same, and wrong. */
const LOG_LOOKS = 3;
/** A key that is wrong again, and why samples fail, are told this often; and keys that are remembered as told. */
const TELL_KEY_MS = 60_000;
const TELL_FAILURE_MS = 3_600_000;
const TOLD_MAX = 64;
/** Stale values after which `--stale quarantine` acts. */
const QUARANTINE_AT = 2;

/** What the database has, over a connection of its own. */
export interface Truth {
  /**
   * Reads a row, or twice in one snapshot the result of a view.
   *
   * @throws The database's error.
   */
  read(key: string): Promise<readonly Found[]>;
  /** Whether a result is one for this server: another origin may have taken over. */
  isCurrent(found: Found): boolean;
  /** Null: all writes go through servers that are told of them. */
  readonly log: MeteredLog | null;
}

/** The log of changes that others make; a hit may be as old as what is not applied. */
export interface MeteredLog {
  /**
   * Waits until every change is applied that was committed by now, and no result of views before is cached.
   *
   * @returns Whether that was in time.
   */
  waitForNow(ms: number): Promise<boolean>;
}

/** What the meter measures, and how it acts. */
export interface MeterContext {
  /** Opens the connection to the database, if it is not. @returns Whether it is open. */
  openTruth(): Promise<boolean>;
  /** While it is open. */
  readonly truth: Truth;
  /**
   * Opens its connection again: the old one may know other types and views, or lead to a server that was replaced.
   *
   * @throws The database's error.
   */
  renewTruth(): Promise<void>;
  /** How far a hit may be behind the log, in milliseconds. */
  readonly lagMaxMs: number;
  /** One of so many hits and changes is compared. */
  readonly every: number;
  /** Whether `look` would find something. */
  isCached(key: string): boolean;
  /** Asks the cache as a client does. @returns Null: it would ask the database. */
  look(key: string): Hit | null;
  /** Hits of clients on rows and views so far. */
  hits(): number;
  /** A key that clients have asked for; null: there is none. */
  drawKey(): string | null;
  /** Returns how a value was cached; null: that is not known. */
  provenanceOf(key: string): Provenance | null;
  /** Deletes a key where this server can. */
  expel(key: string): Promise<void>;
  /** Keeps rows out of all caches from now on; null: a stale value is told only. */
  readonly quarantine: (() => void) | null;
  report(event: TransportEvent): void;
  nowMs(): number;
  /** In Unix seconds, as the database's reader has them. */
  nowUnixSec(): number;
}

/** Counters of samples, by what they have shown. */
export interface MeterCounts {
  /** The hit was right. */
  same: number;
  /** It was behind the log, by less than is allowed, or a view's result within its max-age. */
  lagging: number;
  stale: number;
  /** It was newer than the database. */
  phantom: number;
  /** It cannot be compared: the key changes too often, or its query has another result each time. */
  unclear: number;
  /** The database has not answered. */
  failed: number;
  /** Left out: the database's share was used up. */
  shed: number;
}

/**
 * Compares hits with the database: what a client is answered must lie between what the database had before and after. A
 * witness: nothing depends on it.
 */
export class Meter {
  readonly counts: MeterCounts = {
    ...{ same: 0, lagging: 0, stale: 0, phantom: 0 },
    ...{ unclear: 0, failed: 0, shed: 0 },
  };
  readonly window: SampleWindow;
  /** The longest that a lagging value was behind, from the look at it until its change was applied. */
  lagMsMax = 0;
  readonly #context: MeterContext;
  /** Keys that have changed, and for how many ticks they are looked at yet. */
  readonly #changed = new Map<string, number>();
  #changes = 0;
  #seen: number;
  /** Samples that are due: a fraction of one is kept. */
  #due = 0;
  #lastMs: number;
  /** Time that samples have taken, that of the database included: no more than that is CPU time of this thread. */
  busyMs = 0;
  /** Time that the database has worked for samples, less its share since. */
  #debtMs = 0;
  #tickMs: number;
  #isRunning = false;
  #generation = 0;
  #prefersChanged = true;
  /** The key that is being compared, and whether it may have changed since that began. */
  #compared: string | null = null;
  #isComparedChanged = false;
  /** The key that is being deleted because its value was wrong. */
  #expelled: string | null = null;
  /** Keys whose wrong values were told, and when. */
  readonly #told = new Map<string, number>();
  #failureToldMs = -Infinity;

  constructor(context: MeterContext) {
    this.#context = context;
    const nowMs = context.nowMs();
    this.window = new SampleWindow(() => context.nowMs());
    this.#seen = context.hits();
    this.#lastMs = this.#tickMs = nowMs;
  }

  /** Drops the comparison that is under way: it began with other queries. */
  restart(): void {
    this.#generation++;
  }

  /** Notes keys of rows and views that are being deleted from caches, because they change. */
  noteDeletion(rows: KeySet): void {
    this.noteChanges(rows);
    for (const key of rows.keys) {
      if (key === this.#expelled) continue;
      this.#changes++;
      if (this.#changed.size < CHANGED_MAX) this.#changed.set(key, CHANGED_TICKS);
    }
  }

  /** Notes what the log has. It will be deleted. */
  noteChanges({ keys, prefixes }: KeySet): void {
    const compared = this.#compared;
    if (compared === null) return;
    this.#isComparedChanged ||= keys.includes(compared) ||
      prefixes.some((prefix) => compared.startsWith(prefix));
  }

  /** To be called about once a second. Resolves when the samples that are due are compared. */
  async tick(): Promise<void> {
    const { nowMs, hits, every } = this.#context;
    const now = nowMs();
    const seen = hits();
    this.#due += (Math.max(0, seen - this.#seen) + this.#changes) / every;
    this.#due = Math.min(this.#due, TICK_SAMPLES_MAX);
    this.#seen = seen;
    this.#changes = 0;
    this.#debtMs = Math.max(0, this.#debtMs - (now - this.#tickMs) * DATABASE_SHARE);
    this.#tickMs = now;
    if (this.#isRunning) return;
    const hasRested = now - this.#lastMs >= REST_MS;
    if (hasRested) this.#due = Math.max(this.#due, 1);
    this.#isRunning = true;
    try {
      await this.#sampleAll(Math.min(Math.floor(this.#due), TICK_SAMPLES_MAX), hasRested);
    } finally {
      this.#isRunning = false;
      this.#age();
    }
  }

  /** @param isFirstFree Whether the first sample is taken whatever the database has worked. */
  async #sampleAll(count: number, isFirstFree: boolean): Promise<void> {
    for (let left = count; left > 0; left--) {
      const isFree = isFirstFree && left === count;
      if (!isFree && this.#debtMs > DATABASE_ADVANCE_MS) {
        this.counts.shed += left;
        this.#due -= left;
        return;
      }
      const key = this.#draw();
      if (key === null || !await this.#context.openTruth()) return;
      this.#due--;
      this.#lastMs = this.#context.nowMs();
      this.#compared = key;
      this.#isComparedChanged = false;
      try {
        await this.#sample(key);
      } catch (error) {
        this.#fail(reasonOf(error));
      }
      this.#compared = null;
    }
  }

  /** Chooses a key that the cache answers for: one that has changed, and one of clients, by turns. */
  #draw(): string | null {
    this.#prefersChanged = !this.#prefersChanged;
    return this.#prefersChanged
      ? this.#drawChanged() ?? this.#drawHit()
      : this.#drawHit() ?? this.#drawChanged();
  }

  #drawChanged(): string | null {
    for (const key of this.#changed.keys()) {
      if (!this.#context.isCached(key)) continue;
      this.#changed.delete(key);
      return key;
    }
    return null;
  }

  #drawHit(): string | null {
    const { drawKey, isCached } = this.#context;
    for (let tries = 0; tries < HIT_TRIES; tries++) {
      const key = drawKey();
      if (key !== null && isCached(key)) return key;
    }
    return null;
  }

  #age(): void {
    for (const [key, ticks] of this.#changed) {
      if (ticks === 1) this.#changed.delete(key);
      else this.#changed.set(key, ticks - 1);
    }
  }

  /** @throws The database's error. */
  async #sample(key: string): Promise<void> {
    const generation = this.#generation;
    const first = await this.#bracket(key);
    if (generation !== this.#generation) return;
    // The cache has let go of it, or another origin has taken over.
    if (first === null) return;
    const { comparison, hit } = first;
    if (comparison === "same") return this.#count("same");
    if (comparison === "aging") return this.#count("lagging");
    if (comparison === "unclear") return void this.counts.unclear++;
    const { truth, renewTruth, lagMaxMs, nowMs } = this.#context;
    const { log } = truth;
    const looks = log === null ? 1 : LOG_LOOKS;
    let last = first;
    for (let look = 1; look <= looks; look++) {
      // What the log has up to here includes the change that the hit lacks.
      const sinceMs = nowMs();
      if (log !== null && !await log.waitForNow(lagMaxMs)) {
        return this.#fail(`the log was not applied within ${lagMaxMs} ms`);
      }
      if (look === looks) await this.#spend(renewTruth);
      const next = await this.#bracket(key);
      if (generation !== this.#generation) return;
      const isAsBefore = next !== null && next.comparison === comparison &&
        isSameHit(hit, next.hit) && !(this.#isComparedChanged && mayReturn(hit));
      if (!isAsBefore) {
        if (log === null) return void this.counts.unclear++;
        this.lagMsMax = Math.max(this.lagMsMax, Math.round(nowMs() - sinceMs));
        return this.#count("lagging");
      }
      last = next;
    }
    await this.#found(key, last);
  }

  #fail(reason: string): void {
    this.counts.failed++;
    const nowMs = this.#context.nowMs();
    if (nowMs - this.#failureToldMs < TELL_FAILURE_MS) return;
    this.#failureToldMs = nowMs;
    this.#context.report({
      level: "warning",
      event: "verify_failed",
      message: `a cached value was not compared with the database: ${reason}`,
      fields: { reason },
    });
  }

  /** Counts the time that the database works. */
  async #spend<Result>(act: () => Promise<Result>): Promise<Result> {
    const { nowMs } = this.#context;
    const beganMs = nowMs();
    try {
      return await act();
    } finally {
      this.#debtMs += nowMs() - beganMs;
      this.busyMs += nowMs() - beganMs;
    }
  }

  /** Asks the database, the cache, and the database again. @returns Null: there is no hit to compare. */
  async #bracket(key: string): Promise<Bracket | null> {
    const { truth, look, nowUnixSec } = this.#context;
    const read = (): Promise<readonly Found[]> => this.#spend(() => truth.read(key));
    for (let tries = 1;; tries++) {
      const before = await read();
      const hit = look(key);
      if (hit === null) return null;
      const after = await read();
      const all = [...before, ...after];
      if (!all.every((found) => truth.isCurrent(found))) return null;
      const problem = all.find((found) => found.problem !== undefined)?.problem;
      if (problem !== undefined) throw new Error(problem);
      const comparison = compare(before, hit, after, nowUnixSec());
      if (comparison !== "unclear" || tries === UNCLEAR_TRIES) {
        return { comparison, hit, truth: after[0]! };
      }
    }
  }

  #count(end: "same" | "lagging"): void {
    this.counts[end]++;
    this.window.add(false);
  }

  /** Tells of a value that is wrong, and takes it out of all caches. */
  async #found(key: string, { comparison, hit, truth }: Bracket): Promise<void> {
    const kind = comparison === "newer" ? "phantom" : "stale";
    this.counts[kind]++;
    this.window.add(true);
    const cached = hit === "absent" ? "absent" : `version ${hit.version}`;
    const stored = truth.row === null ? "absent" : `version ${truth.version}`;
    const name = printable(key);
    const reads = kind === "stale" ? "older" : "newer";
    const { quarantine, expel, provenanceOf } = this.#context;
    if (this.#isToTell(key)) {
      const provenance = provenanceText(provenanceOf(key));
      this.#context.report({
        level: "error",
        event: kind === "stale" ? "stale_value" : "phantom_value",
        message: `a cached value is ${reads} than the database has it: ${name}, ` +
          `cached ${cached}, in the database ${stored}; ${provenance}; it is deleted`,
        fields: { key: name, cached, stored, provenance },
      });
    }
    if (this.counts.stale + this.counts.phantom === QUARANTINE_AT && quarantine !== null) {
      quarantine();
      this.#context.report({
        level: "error",
        event: "stale_quarantine",
        message: `${QUARANTINE_AT} cached values were wrong: no row is cached until a restart`,
        fields: {},
      });
    }
    this.#expelled = key;
    try {
      await expel(key);
    } catch (error) {
      const reason = reasonOf(error);
      const message = `cannot delete ${name}: ${reason}`;
      this.#context.report({
        ...{ level: "error", event: "stale_value", message },
        fields: { key: name, reason },
      });
    }
    this.#expelled = null;
  }

  /** Whether the key was not told for some time. */
  #isToTell(key: string): boolean {
    const nowMs = this.#context.nowMs();
    for (const [each, toldMs] of this.#told) {
      if (nowMs - toldMs >= TELL_KEY_MS) this.#told.delete(each);
    }
    if (this.#told.has(key) || this.#told.size === TOLD_MAX) return false;
    this.#told.set(key, nowMs);
    return true;
  }
}

/** A hit beside what the database had after it. */
interface Bracket {
  readonly comparison: Comparison;
  readonly hit: Hit;
  readonly truth: Found;
}
