import { MS_MAX } from "./address.ts";
import {
  checkNumber,
  checkOptions,
  expiryOf,
  keyBytes,
  membersOf,
  oneOrMore,
  type OptionNames,
  prefixedBytes,
} from "./checks.ts";
import type { CallOptions } from "./commands.ts";
import { LoadTimeoutError } from "./errors.ts";
import type { LoadSettings } from "./flows/load.ts";
import type { Outcome } from "./flows/steps.ts";

const TTL_SEC = 600;
const ABSENT_SEC = 10;
const LEASE_SEC = 10;
const WAIT_MS = 10_000;
const HARD_MS = 30_000;
const BACKOFF_MS = 1_000;
const SEC_MAX = 0x7fff_ffff;
const TAG_PREFIX = "tag:";
const NAMESPACE_PREFIX = "namespace:";
/** Behind a key: its item is held by the client that loads the key's value anew. */
const CLAIM_SUFFIX = "~claim";

/** Handed to `load`: limits to obey, and results to set. */
export interface LoadControl {
  /** Aborts after `hardMs`. */
  readonly signal: AbortSignal;
  /** Seconds; 0: for ever. Set it to overrule the option. */
  ttlSec: number;
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
  readonly ttlSec?: number;
  /** How long the absence of a row is kept, in seconds; 0: not at all. Default 10. */
  readonly absentSec?: number;
  /** How long other clients wait for this one's load, in seconds. Default 10. */
  readonly leaseSec?: number;
  /** How long to wait for the load of another client, in ms; then this one loads, without a fill. Default 10,000. */
  readonly waitMs?: number;
  /** After this time a load fails with LoadTimeoutError, and its signal aborts, in ms. Default 30,000. */
  readonly hardMs?: number;
  /**
   * How long a value is kept after its time, in seconds: it is served, marked as stale, while loading fails or is slow.
   * An invalidated value is never served. Default 0: off.
   */
  readonly graceSec?: number;
  /**
   * After this time the caller that loads gets a value in its grace, in ms; 0: only when the load fails. Default 0.
   * Other callers get it at once.
   */
  readonly softMs?: number;
  /**
   * How long a value in its grace is served without another load after one has failed, in ms; 0: not at all.
   * Default 1,000.
   */
  readonly backoffMs?: number;
  /** One caller loads a value anew that expires within this time, in seconds, after all got it. Default 0: off. */
  readonly refreshSec?: number;
  /** Names of which each can be invalidated by `invalidateTags`. */
  readonly tags?: readonly string[];
}

export const LOAD: OptionNames<LoadOptions> = {
  ...{ ttlSec: true, absentSec: true, leaseSec: true, waitMs: true, hardMs: true, graceSec: true },
  ...{ softMs: true, backoffMs: true, refreshSec: true, tags: true, signal: true },
};

/** Options of a load with their defaults, checked. */
export interface Settings extends LoadSettings {
  readonly ttlSec: number;
  readonly leaseSec: number;
  readonly hardMs: number;
  /** How long this client does not load a key anew after a load of it has failed, in ms. */
  readonly backoffMs: number;
}

/** Returns the key whose lease is the right to load a key's value anew. @param key As `keyBytes` returns it. */
export function claimKey(key: string): string {
  return key + CLAIM_SUFFIX;
}

/** Returns a key's bytes, checked for what the settings do with it. @throws RangeError, TypeError */
export function loadKey(key: string, { refreshSec, graceSec }: Settings): string {
  const isClaimed = refreshSec > 0 || graceSec > 0;
  return isClaimed ? prefixedBytes("key", "", key, CLAIM_SUFFIX.length) : keyBytes(key);
}

/** @throws RangeError, TypeError: an option is wrong. */
export function settingsOf(options: LoadOptions): Settings {
  checkOptions(options, LOAD);
  const { ttlSec = TTL_SEC, absentSec = ABSENT_SEC, leaseSec = LEASE_SEC, hardMs = HARD_MS } =
    options;
  const { waitMs = WAIT_MS, graceSec = 0, softMs = 0, refreshSec = 0, tags = [] } = options;
  const { backoffMs = BACKOFF_MS } = options;
  for (const [name, sec] of Object.entries({ absentSec, graceSec, refreshSec })) {
    checkNumber(name, sec, 0, SEC_MAX);
  }
  for (const [name, ms] of Object.entries({ waitMs, softMs, backoffMs })) {
    checkNumber(name, ms, 0, MS_MAX);
  }
  checkNumber("hardMs", hardMs, 1, MS_MAX);
  checkNumber("leaseSec", leaseSec, 1, MS_MAX / 1000);
  expiryOf(ttlSec);
  if (graceSec > 0) {
    expiryOf(ttlSec + graceSec, "ttlSec and graceSec together");
    expiryOf(absentSec + graceSec, "absentSec and graceSec together");
  }
  return {
    ...{ ttlSec, absentSec, leaseSec, hardMs, waitMs, graceSec, softMs, backoffMs, refreshSec },
    tags: tagKeys(membersOf("tags", tags)),
  };
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

/** Returns the tag of all keys of a namespace. @throws RangeError, TypeError: the name is no part of a key. */
export function namespaceTag(name: string): string {
  prefixedBytes("name", TAG_PREFIX + NAMESPACE_PREFIX, name);
  return NAMESPACE_PREFIX + name;
}

/** Returns the keys whose items' ids are the versions of tags, each once. @throws RangeError, TypeError */
export function tagKeys(tags: string | readonly string[]): string[] {
  return [...new Set(oneOrMore("tags", tags))].map((tag) => prefixedBytes("tag", TAG_PREFIX, tag));
}
