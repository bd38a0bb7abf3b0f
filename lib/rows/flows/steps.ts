import type {
  Found,
  NotedCaches,
  NoteResult,
  Takeover,
  Write,
  WriteOutcome,
  WriteResult,
} from "../../databases/base/backend.ts";

/** A cache failed to execute a request. */
export class CacheError extends Error {
  override readonly name = "CacheError";
}

/** A write under a token. */
export interface RowWrite extends Omit<Write, "key"> {
  readonly key: string;
}

/** A step of a flow, executed by a cache, the database or the clock. */
export type FlowStep<Cache> =
  /** Removes all values and leases of a cache, and has it refuse fills; or ends that. */
  | { readonly kind: "quarantine"; readonly cache: Cache; readonly on: boolean }
  /** Notes the caches that may hold values, if the origin's epoch is still this one. */
  | {
    readonly kind: "noteCaches";
    readonly caches: NotedCaches["caches"];
    readonly epoch: number;
  }
  /** Reads rows and the epoch in one snapshot of the database. */
  | { readonly kind: "readRows"; readonly keys: readonly string[] }
  /** Writes rows in a transaction that checks the epoch and notes the tokens as applied. */
  | { readonly kind: "writeRows"; readonly writes: readonly RowWrite[]; readonly epoch: number }
  /** Removes the keys, their leases and notes of absence from the cache of this process, in one step. */
  | {
    readonly kind: "invalidateHere";
    readonly keys: readonly string[];
    /** The connection that writes each; 0: none. */
    readonly connections: readonly number[];
  }
  /** Removes the keys and all their leases from the cache of this process, whoever holds their locks. */
  | { readonly kind: "expelHere"; readonly keys: readonly string[] }
  /** Removes all rows whose keys have one of these prefixes, and their leases, from the cache of this process. */
  | { readonly kind: "expelPrefixesHere"; readonly prefixes: readonly string[] }
  /** Removes all values, leases and locks from the cache of this process. */
  | { readonly kind: "emptyHere" }
  /** Deletes the keys in all these caches, in any order or at the same time. */
  | {
    readonly kind: "invalidateListed";
    readonly caches: readonly Cache[];
    readonly keys: readonly string[];
  }
  /** Deletes the keys in all nodes: each has confirmed it, or serves no row any more. */
  | { readonly kind: "invalidateNodes"; readonly keys: readonly string[] }
  /** Takes the lock that only one origin has, or asks whether this one has it. */
  | { readonly kind: "lockOrigin" }
  /** Raises the epoch, and notes how long this origin may serve rows without the database. */
  | { readonly kind: "takeOver"; readonly rightMs: number }
  /** Reads the epoch. */
  | { readonly kind: "readEpoch" }
  /** Notes that the origin of this epoch serves no row any more. */
  | { readonly kind: "noteEnd"; readonly epoch: number }
  /** Notes a mark, if no other origin has taken over. */
  | { readonly kind: "noteMark"; readonly mark: string; readonly epoch: number }
  /** Asks the database what became of the write under a token. */
  | { readonly kind: "askOutcome"; readonly tokenId: number }
  | { readonly kind: "sleep"; readonly ms: number };

/** The result of each step. A cache that fails throws a CacheError; the database throws its own errors. */
export interface StepResults {
  readonly quarantine: void;
  readonly noteCaches: NoteResult;
  readonly readRows: readonly Found[];
  readonly writeRows: readonly WriteResult[];
  /** By key; false: another connection holds its lock, and nothing has changed. */
  readonly invalidateHere: readonly boolean[];
  readonly expelHere: void;
  readonly expelPrefixesHere: void;
  readonly emptyHere: void;
  /** By key: the reason why a cache did not confirm; null: all did. */
  readonly invalidateListed: readonly (string | null)[];
  readonly invalidateNodes: void;
  readonly lockOrigin: boolean;
  readonly takeOver: Takeover;
  readonly readEpoch: number;
  readonly noteEnd: void;
  /** False: another origin has taken over. */
  readonly noteMark: boolean;
  readonly askOutcome: WriteOutcome;
  readonly sleep: void;
}

export type StepKind = FlowStep<unknown>["kind"];

/**
 * A flow: yields its steps one by one, and receives their results or errors. Between two yields the flow
 * runs without interruption.
 */
export type Flow<Cache, Result> = Generator<FlowStep<Cache>, Result, StepResults[StepKind]>;

/** Yields one step. @returns Its result. */
export function* step<Cache, Kind extends StepKind>(
  request: FlowStep<Cache> & { readonly kind: Kind },
): Flow<Cache, StepResults[Kind]> {
  return (yield request) as StepResults[Kind];
}
