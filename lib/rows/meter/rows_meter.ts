import { latin1Text } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import type { RowKind } from "../../../store/row_cache.ts";
import type { Stat } from "../../../protocol/stats/entry.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import type { Hit } from "./comparison.ts";
import { Meter, type MeterContext, type Truth } from "./meter.ts";
import { HitSampler } from "./hit_sampler.ts";
import { meterStats } from "./meter_stats.ts";
import { ProvenanceTable } from "./provenance.ts";
import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";

const TICK_MS = 1000;
/** Ticks until the database is opened again. */
const REOPEN_TICKS = 60;
/** How long an end waits for a comparison. */
const STOP_MS = 500;
/** Longer values are compared by their versions alone. */
const COMPARED_BYTES_MAX = 1024 * 1024;

/** A connection that only the meter uses. */
export interface OpenTruth extends Truth {
  close(): Promise<void>;
}

/** The parts of an origin, or of a node, that its meter asks. */
export interface RowsMeterParts extends Pick<MeterContext, "expel" | "quarantine" | "report"> {
  readonly cache: Cache;
  readonly options: {
    readonly prefixes: readonly string[];
    /** One of so many hits is compared. */
    readonly verify: number;
    readonly lagMaxMs: number;
  };
  /** What the keys of views begin with, a character a byte, beside the prefixes of the options. */
  readonly viewPrefixes: () => readonly string[];
  /** @returns Null: only one connection sees this database. @throws Its error. */
  readonly openTruth: () => Promise<OpenTruth | null>;
}

/** `--verify`: the meter of an origin or a node. */
export class RowsMeter {
  readonly #parts: RowsMeterParts;
  readonly #meter: Meter;
  readonly #prefixes: readonly string[];
  readonly #hits: HitSampler;
  readonly #provenances = new ProvenanceTable();
  #truth: OpenTruth | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;
  #ticking: Promise<void> = Promise.resolve();
  #isTicking = false;
  #ticksToOpen = 0;
  #isClosed = false;
  #isMeasurable = true;
  /** No row is cached any more. */
  #isQuarantined = false;

  constructor(parts: RowsMeterParts) {
    const { cache, options } = parts;
    this.#parts = parts;
    const encoder = new TextEncoder();
    this.#prefixes = options.prefixes.map((prefix) => latin1Text(encoder.encode(prefix)));
    this.#hits = new HitSampler(cache.inspector, (key) => this.#isRow(key));
    // deno-lint-ignore no-this-alias -- for the getter
    const meter = this;
    const { quarantine } = parts;
    this.#meter = new Meter({
      ...parts,
      truth: {
        read: (key) => this.#truth!.read(key),
        isCurrent: (found) => this.#truth!.isCurrent(found),
        get log() {
          return meter.#truth!.log;
        },
      },
      openTruth: () => this.#openInTime(),
      renewTruth: () => this.#renew(),
      provenanceOf: (key) => this.#provenances.of(key),
      lagMaxMs: options.lagMaxMs,
      every: options.verify,
      look: (key) => this.#look(key, COMPARED_BYTES_MAX),
      isCached: (key) => this.#look(key, 0) !== null,
      hits: () => this.#hits.hits,
      drawKey: () => this.#hits.draw(),
      quarantine: quarantine && (() => {
        this.#isQuarantined = true;
        quarantine();
      }),
      nowMs: () => performance.now(),
      nowUnixSec: () => Date.now() / 1000,
    });
  }

  get stats(): Stat[] {
    return meterStats(this.#meter, this.#isQuarantined);
  }

  /** Why `/health` is not well; null: no value of the last hour was wrong, and rows are cached. */
  get problem(): string | null {
    if (this.#isQuarantined) return "cached values were wrong: no row is cached until a restart";
    const { compared, stale } = this.#meter.window.hour;
    if (stale === 0) return null;
    return `${stale} of ${compared} cached values that were compared in the last hour were wrong`;
  }

  start(): void {
    this.#timer = setInterval(() => {
      if (this.#isTicking) return;
      this.#isTicking = true;
      const ticked = this.#ticking.then(() => this.#tick());
      this.#ticking = ticked.finally(() => this.#isTicking = false);
    }, TICK_MS);
  }

  /** Ends it; what is being compared is given up if the database does not answer soon. */
  async stop(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.race([this.#ticking, pause(STOP_MS)]);
    await this.#close();
  }

  /** Notes keys that are being deleted because they change. */
  noteDeletion(rows: KeySet): void {
    this.#meter.noteDeletion({ ...rows, keys: rows.keys.filter((key) => this.#isRow(key)) });
  }

  /** Notes that a value was cached. @param kind Of the request that cached it. */
  noteCached(key: string, kind: RowKind): void {
    this.#provenances.note(key, kind, Date.now());
  }

  /** Notes what the log has. It will be deleted. */
  noteChanges(rows: KeySet): void {
    this.#meter.noteChanges(rows);
  }

  /** Opens its connection again: views or the schema are others from here on. */
  reopen(): void {
    this.#meter.restart();
    this.#ticking = this.#ticking.then(() => this.#close());
    this.#ticksToOpen = 0;
  }

  /** Opens its connection if there is none, unless that has just failed. @returns Whether there is one. */
  async #openInTime(): Promise<boolean> {
    if (this.#truth === null && --this.#ticksToOpen < 0) await this.#open();
    return this.#truth !== null;
  }

  async #open(): Promise<void> {
    this.#ticksToOpen = REOPEN_TICKS;
    try {
      this.#truth = await this.#parts.openTruth();
      this.#isMeasurable = this.#truth !== null;
      if (this.#isClosed) await this.#close();
    } catch (error) {
      this.#say(reasonOf(error));
    }
  }

  /** @throws The database's error; until it is open again, nothing is compared. */
  async #renew(): Promise<void> {
    await this.#close();
    await this.#open();
    if (this.#truth === null) throw new Error("the connection cannot be opened again");
  }

  async #close(): Promise<void> {
    const truth = this.#truth;
    this.#truth = null;
    try {
      await truth?.close();
    } catch (error) {
      this.#say(reasonOf(error));
    }
  }

  /** @param bytesMax A longer value is not copied. */
  #look(key: string, bytesMax: number): Hit | null {
    const { cache } = this.#parts;
    cache.enter();
    const hit = cache.rows!.look(key, bytesMax);
    cache.leave();
    return hit;
  }

  async #tick(): Promise<void> {
    if (this.#isClosed || !this.#isMeasurable) return;
    const beganMs = performance.now();
    this.#hits.update();
    this.#meter.busyMs += performance.now() - beganMs;
    await this.#meter.tick();
  }

  #say(reason: string): void {
    this.#parts.report({
      level: "warning",
      event: "verify_off",
      message: `cached values are not compared with the database: ${reason}; trying again`,
      fields: { reason },
    });
  }

  #isRow(key: string): boolean {
    const prefixes = [...this.#prefixes, ...this.#parts.viewPrefixes()];
    return prefixes.some((prefix) => key.startsWith(prefix));
  }
}
