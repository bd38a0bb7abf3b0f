import type { MakeActor } from "./steps.ts";
import type { CacheNode } from "./cache_node.ts";
import type { OriginSetup } from "./client_caches/setup.ts";

/**
 * Events that no client causes:
 *
 * - `time`: the clocks move to the next deadline
 * - `pause`: the same, but the servers do nothing meanwhile: what has expired stays in memory
 * - `evict`: the key's value, or else its lease, is evicted from a cache
 * - `restart`: a cache restarts, empty; its journal, if it has one, keeps what was synced, or all
 * - `crash`: a writer that has begun crashes
 * - `disconnect`: a client that holds a lock loses its connection, and ends
 * - `loseReply`: a command, or a request to an origin, takes place, but its reply is lost with the connection
 * - `journalFails`: the disk refuses what the journal writes
 * - `journal`: the journal writes what is in its queue; with `isJournaled` it always may
 * - `cleanRestart`: a cache restarts with the snapshot that it writes at its stop
 */
export const ENVIRONMENT = [
  "time",
  "pause",
  "evict",
  "restart",
  "crash",
  "disconnect",
  "loseReply",
  "journalFails",
  "journal",
  "cleanRestart",
] as const;
export type EnvironmentStep = typeof ENVIRONMENT[number];

/** The invariants, beside the values (section 12.3 of the specification names them by these numbers). */
export type Invariant =
  /** No id is issued twice. */
  | "S3"
  /** A key with a token has no entry; only release and drop remove a token. */
  | "S4"
  /** Only its holder changes a locked value; no lock outlives its connection. */
  | "S5"
  /** No read but those that ask for leases sees one. */
  | "S6"
  /** No plain write on a lease is readable after the lease's time. */
  | "S7"
  /** Nothing is readable that a flush met. */
  | "S9"
  /** No value is readable after its deadline. */
  | "S10";

export interface Role {
  readonly name: string;
  readonly count: number;
  /** The actor changes the database: from its first step to its last, or to the one that `endsUpdate`. */
  readonly isWriter?: boolean;
  readonly act: MakeActor;
}

/** A fault between actors and a cache: it may answer a request itself, or send another one. */
export type Mutation = (
  request: string,
  ask: (request: string) => string,
  node: CacheNode,
) => string;

export interface Scenario {
  readonly name: string;
  readonly roles: readonly Role[];
  /** Most occurrences of each event; left out: none. */
  readonly environment?: Readonly<Partial<Record<EnvironmentStep, number>>>;
  /** How many caches there are; left out: one. */
  readonly caches?: number;
  /**
   * When cached values must equal the committed one: always, or (left out: `at rest`) whenever no
   * writer is between its first step and its last.
   */
  readonly values?: "always" | "at rest";
  /** Invariants that the scenario's fault breaks earlier than those it is about. */
  readonly ignores?: readonly Invariant[];
  /** No token may be out once all actors have ended. */
  readonly mustEndWithoutTokens?: boolean;
  /** Update tokens have a journal; left out: a restart forgets them. */
  readonly isJournaled?: boolean;
  /** How long a cache stores nothing after a restart. */
  readonly quarantineSec?: number;
  /** By how much the wall clock moves in a restart, beside the time that passes. */
  readonly wallClockStepSec?: number;
  /** Options of the server, beside those of every scenario. */
  readonly options?: readonly string[];
  /** The row's value is in the caches at the beginning. */
  readonly filled?: boolean;
  /** Whether clients are served what the first cache has; left out: always. */
  readonly isServed?: (ask: (cache: number, request: string) => string) => boolean;
  readonly mutation?: Mutation;
  /** A fault that a lost connection triggers. @param owner The connection. */
  readonly onDisconnect?: (node: CacheNode, owner: number) => void;
  /** A fault that a restart triggers. */
  readonly onRestart?: (node: CacheNode) => void;
  /** Ids repeat after a restart, and a snapshot does not raise them. */
  readonly repeatsIds?: boolean;
  /** Origins before the database; left out: none. */
  readonly origin?: OriginSetup;
}

/** A scenario and its expected result. */
export interface Row extends Scenario {
  /** Steps of the shortest way to a wrong state; left out: no state is wrong. */
  readonly wrongAfter?: number;
  /** Why that is shorter than the way in table 12.4 of the specification, or what else it shows. */
  readonly why?: string;
}
