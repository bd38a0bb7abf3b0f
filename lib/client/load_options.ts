import { MS_MAX } from "./net/address.ts";
import { checkOptions, membersOf, type OptionNames } from "./checks.ts";
import type { CallOptions } from "./command_options.ts";
import { type Duration, expiryOf, msOf, secOf, TTL_SEC_MAX } from "./durations.ts";
import { LoadTimeoutError } from "./errors.ts";
import type { LoadSettings } from "./flows/load.ts";
import type { Outcome } from "./flows/steps.ts";
import { ALL_KEYS, type KeySpace } from "./key_space.ts";

/** Behind a key: its item is held by the client that loads the key's value anew. */
const CLAIM_SUFFIX = "~claim";

/** Handed to `load`: limits to obey, and results to set. */
export interface LoadControl {
  /** Aborts after `hardMs`. */
  readonly signal: AbortSignal;
  /** Seconds; 0: for ever. Set it to overrule the option. */
  ttlSec: Duration;
  /** Set it to false so that the rows are not kept. */
  keep: boolean;
}

/** Loads rows. Keys are as `keyBytes` returns them. */
export type LoadRows<Value> = (
  keys: readonly string[],
  control: LoadControl,
) => Promise<ReadonlyMap<string, Value | undefined>>;

/** Loads the row of a key; undefined: there is none. */
export type Load<Value> = (
  key: string,
  control: LoadControl,
) => Promise<Value | undefined> | Value | undefined;

/** Loads the rows of keys. Keys that are missing in the result have no row. */
export type LoadMany<Value> = (
  keys: readonly string[],
  control: LoadControl,
) => Promise<ReadonlyMap<string, Value>> | ReadonlyMap<string, Value>;

/** Options of `getOrLoad`; use the same for all calls of a key. */
export interface LoadOptions extends CallOptions {
  /** How long a value is kept, in seconds; 0: for ever. Default 600. */
  readonly ttlSec?: Duration;
  /** How long the absence of a row is kept, in seconds; 0: not at all. Default 10. */
  readonly absentSec?: Duration;
  /** How long other clients wait for this one's load, in seconds. Default 10. */
  readonly leaseSec?: Duration;
  /** How long to wait for the load of another client, in ms; then this one loads, without a fill. Default 10,000. */
  readonly waitMs?: Duration;
  /** After this time a load fails with LoadTimeoutError, and its signal aborts, in ms. Default 30,000. */
  readonly hardMs?: Duration;
  /**
   * How long a value is kept after its time, in seconds: it is served, marked as stale, while loading fails or is slow.
   * An invalidated value is never served. Default 0: off.
   */
  readonly graceSec?: Duration;
  /**
   * After this time the caller that loads gets a value in its grace, in ms; 0: only when the load fails. Default 0.
   * Other callers get it at once.
   */
  readonly softMs?: Duration;
  /**
   * How long a value in its grace is served without another load after one has failed, in ms; 0: not at all.
   * Default 1,000.
   */
  readonly backoffMs?: Duration;
  /** One caller loads a value anew that expires within this time, in seconds, after all got it. Default 0: off. */
  readonly refreshSec?: Duration;
  /** Names of which each can be invalidated by `invalidateTags`. */
  readonly tags?: readonly string[];
}

/** Options of `getOrLoad` that may hold for all calls. */
export type LoadDefaults = Omit<LoadOptions, "signal" | "tags">;

export const LOAD_DEFAULTS: OptionNames<LoadDefaults> = {
  ...{ ttlSec: true, absentSec: true, leaseSec: true, waitMs: true, hardMs: true, graceSec: true },
  ...{ softMs: true, backoffMs: true, refreshSec: true },
};
const LOAD: OptionNames<LoadOptions> = { ...LOAD_DEFAULTS, tags: true, signal: true };

/** Options of a load with their defaults, checked. */
export interface Settings extends LoadSettings {
  readonly ttlSec: number;
  readonly leaseSec: number;
  readonly hardMs: number;
  /** How long this client does not load a key anew after a load of it has failed, in ms. */
  readonly backoffMs: number;
}

/** What holds for options that nobody gives. */
const DEFAULTS: Settings = {
  absentSec: 10,
  backoffMs: 1_000,
  graceSec: 0,
  hardMs: 30_000,
  leaseSec: 10,
  refreshSec: 0,
  softMs: 0,
  ttlSec: 600,
  waitMs: 10_000,
  tags: [],
};

/** Returns the key whose lease is the right to load a key's value anew. @param key As `keyBytes` returns it. */
export function claimKey(key: string): string {
  return key + CLAIM_SUFFIX;
}

/** Returns a key's bytes, checked for what the settings do with it. @throws RangeError, TypeError */
export function loadKey(key: string, { refreshSec, graceSec }: Settings, space: KeySpace): string {
  const isClaimed = refreshSec > 0 || graceSec > 0;
  return space.keyOf(key, isClaimed ? CLAIM_SUFFIX.length : 0);
}

/**
 * Returns the settings of a call.
 *
 * @param defaults What holds for options that are missing; their tags are added.
 * @throws RangeError, TypeError: an option is wrong.
 */
export function settingsOf(
  options: LoadOptions,
  defaults: Settings = DEFAULTS,
  space: KeySpace = ALL_KEYS,
): Settings {
  checkOptions(options, LOAD);
  const { absentSec = defaults.absentSec, backoffMs = defaults.backoffMs } = options;
  const { graceSec = defaults.graceSec, hardMs = defaults.hardMs } = options;
  const { leaseSec = defaults.leaseSec, refreshSec = defaults.refreshSec } = options;
  const { softMs = defaults.softMs, ttlSec = defaults.ttlSec, waitMs = defaults.waitMs } = options;
  const { tags = [] } = options;
  const settings = {
    absentSec: secOf("absentSec", absentSec, 0, TTL_SEC_MAX),
    backoffMs: msOf("backoffMs", backoffMs, 0, MS_MAX),
    graceSec: secOf("graceSec", graceSec, 0, TTL_SEC_MAX),
    hardMs: msOf("hardMs", hardMs, 1, MS_MAX),
    leaseSec: secOf("leaseSec", leaseSec, 1, MS_MAX / 1000),
    refreshSec: secOf("refreshSec", refreshSec, 0, TTL_SEC_MAX),
    softMs: msOf("softMs", softMs, 0, MS_MAX),
    ttlSec: secOf("ttlSec", ttlSec, 0, TTL_SEC_MAX),
    waitMs: msOf("waitMs", waitMs, 0, MS_MAX),
    tags: [...new Set([...defaults.tags, ...space.tagsOf(membersOf("tags", tags))])],
  };
  if (settings.graceSec > 0) {
    const { ttlSec, absentSec, graceSec } = settings;
    expiryOf(ttlSec + graceSec, "ttlSec and graceSec together");
    expiryOf(absentSec + graceSec, "absentSec and graceSec together");
  }
  return settings;
}

/** Returns the settings of calls without options. @param options These, and others. @throws RangeError, TypeError */
export function defaultsOf(options: LoadDefaults): Settings {
  const names = Object.keys(LOAD_DEFAULTS) as (keyof LoadDefaults)[];
  return settingsOf(Object.fromEntries(names.map((name) => [name, options[name]])));
}

/** A caller who has waited for a load that took too long does not wait for another one as long. */
export function leftOf(
  settings: Settings,
  previous: Outcome<unknown> | undefined,
  waitedMs: number,
): Settings {
  if (previous === undefined || !("error" in previous)) return settings;
  if (!(previous.error instanceof LoadTimeoutError)) return settings;
  return { ...settings, hardMs: Math.max(1, Math.ceil(settings.hardMs - waitedMs)) };
}
