import { latin1Text } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import type { Stat } from "../../../protocol/stats/entry.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import type { Hit } from "./comparison.ts";
import { Meter, type MeterContext, type Truth } from "./meter.ts";
import { meterStats } from "./meter_stats.ts";
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
  #truth: OpenTruth | null = null;
  /** Rows and views among the keys that clients ask for most, as of this tick. */
  #hotKeys: Cache["inspector"]["hotKeys"]["keys"] = [];
  #timer: ReturnType<typeof setInterval> | undefined;
  #ticking: Promise<void> = Promise.resolve();
  #isTicking = false;
  #ticksToOpen = 0;
  #isClosed = false;
  #isMeasurable = true;

  constructor(parts: RowsMeterParts) {
    const { cache, options } = parts;
    this.#parts = parts;
    const encoder = new TextEncoder();
    this.#prefixes = options.prefixes.map((prefix) => latin1Text(encoder.encode(prefix)));
    // deno-lint-ignore no-this-alias -- for the getter
    const meter = this;
    this.#meter = new Meter({
      ...parts,
      truth: {
        read: (key) => this.#truth!.read(key),
        isCurrent: (found) => this.#truth!.isCurrent(found),
        get log() {
          return meter.#truth!.log;
        },
      },
      lagMaxMs: options.lagMaxMs,
      every: options.verify,
      look: (key) => this.#look(key, COMPARED_BYTES_MAX),
      isCached: (key) => this.#look(key, 0) !== null,
      hits: () => cache.inspector.sumOfClasses("get_hits"),
      drawKey: () => this.#drawKey(),
      nowMs: () => performance.now(),
    });
  }

  get stats(): Stat[] {
    return meterStats(this.#meter);
  }

  /** Why `/health` is not well; null: no value of the last hour was wrong. */
  get problem(): string | null {
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
  note({ keys }: KeySet): void {
    for (const key of keys) if (this.#isRow(key)) this.#meter.noteChange(key);
  }

  /** Opens its connection again: views or the schema are others from here on. */
  reopen(): void {
    this.#meter.restart();
    this.#ticking = this.#ticking.then(() => this.#close());
    this.#ticksToOpen = 0;
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

  /** A key of rows or views among those that clients ask for most; the more often it is asked for, the more likely. */
  #drawKey(): string | null {
    const keys = this.#hotKeys;
    let left = Math.random() * keys.reduce((sum, { count }) => sum + count, 0);
    return keys.find(({ count }) => (left -= count) < 0)?.key ?? null;
  }

  async #tick(): Promise<void> {
    if (this.#isClosed || !this.#isMeasurable) return;
    if (this.#truth === null && --this.#ticksToOpen < 0) await this.#open();
    if (this.#truth === null) return;
    const { hotKeys } = this.#parts.cache.inspector;
    this.#hotKeys = hotKeys.keys.filter(({ key }) => this.#isRow(key));
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
