import { type Flow, stepOf } from "../../flow/flow.ts";
import type {
  Found,
  Takeover,
  Write,
  WriteOutcome,
  WriteResult,
} from "../../databases/base/backend.ts";

/** A write under a token. */
export interface RowWrite extends Omit<Write, "key"> {
  readonly key: string;
}

/** A step of a flow, executed by the cache of this process, the nodes, the database or the clock. */
export type FlowStep =
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

/** The result of each step. The database throws its own errors. */
export interface StepResults {
  readonly readRows: readonly Found[];
  readonly writeRows: readonly WriteResult[];
  /** By key; false: another connection holds its lock, and nothing has changed. */
  readonly invalidateHere: readonly boolean[];
  readonly expelHere: void;
  readonly expelPrefixesHere: void;
  readonly emptyHere: void;
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

export type StepKind = FlowStep["kind"];

/** A flow of rows. */
export type RowFlow<Result> = Flow<FlowStep, Result>;

/** Yields one step. @returns Its result. */
export const step = stepOf<FlowStep, StepResults>();
