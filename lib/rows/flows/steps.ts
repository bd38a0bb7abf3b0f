import { type Flow, stepOf } from "../../flow/flow.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import type {
  Found,
  Takeover,
  Write,
  WriteOutcome,
  WriteResult,
} from "../../databases/base/backend.ts";

/** Rows to delete, with their leases and notes of absence. */
export interface RowDeletion extends KeySet {
  /**
   * The connection that writes each key; 0: none. The lock of another connection on a key forbids its deletion. Left
   * out: the rows have changed, whoever has locked them.
   */
  readonly writers?: readonly number[];
}

/** A step of a flow, executed by the cache of this process, the nodes, the database or the clock. */
export type FlowStep =
  /** Reads rows and the epoch in one snapshot of the database. */
  | { readonly kind: "readRows"; readonly keys: readonly string[] }
  /** Writes rows in a transaction that checks the epoch and notes the tokens as applied. */
  | { readonly kind: "writeRows"; readonly writes: readonly Write[]; readonly epoch: number }
  /** Deletes rows in the origin's own cache and in all nodes. */
  | RowDeletion & { readonly kind: "delete" }
  /** Takes the lock that only one origin has, or asks whether this one has it. */
  | { readonly kind: "lockOrigin" }
  /** Lets go of that lock. */
  | { readonly kind: "unlockOrigin" }
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
  /** With `takesLock`, the lock of the active origin is asked for until this one has it. */
  | { readonly kind: "sleep"; readonly ms: number; readonly takesLock?: true };

/** The result of each step. The database throws its own errors. */
export interface StepResults {
  readonly readRows: readonly Found[];
  readonly writeRows: readonly WriteResult[];
  /**
   * By key: whether it is deleted, so that each node has confirmed it, or serves no row any more. False: another
   * connection holds its lock, and nothing has changed.
   */
  readonly delete: readonly boolean[];
  readonly lockOrigin: boolean;
  readonly unlockOrigin: void;
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
