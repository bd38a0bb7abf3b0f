import { type Flow, stepOf } from "../../flow/flow.ts";

/** A value as the cache has it, with what decides whether it may be served. */
export interface Entry<Value> {
  /** Undefined: the row is known to be absent. */
  readonly value: Value | undefined;
  /** How long the item stays after its time to live, in seconds. */
  readonly graceSec: number;
  /** By tag, its version when the value was loaded. */
  readonly versions: Readonly<Record<string, string>>;
}

/** The cache's state of a key. */
export type KeyState<Value> =
  /** `cas` is its id; `leftSec` the seconds until the server removes it. */
  | {
    readonly state: "value";
    readonly cas: string;
    readonly leftSec: number;
    readonly entry: Entry<Value>;
    /** Whether the codec could not decode it: `entry` is then one that no look is content with. */
    readonly isUndecodable?: boolean;
  }
  /** The flow has taken the lease, whose id is `cas`. */
  | { readonly state: "won"; readonly cas: string }
  /** Another client has the lease, for so long. */
  | { readonly state: "held"; readonly leftSec: number }
  /** A writer's update token is out: the value is loaded, and not kept. */
  | { readonly state: "uncacheable" }
  /** Its server does not answer. */
  | { readonly state: "away" };

/** The keys and tags of a look. */
export interface LookResult<Value> {
  readonly seen: ReadonlyMap<string, KeyState<Value>>;
  /** Undefined: a tag's server does not answer. */
  readonly versions: Readonly<Record<string, string>> | undefined;
}

/** The rows that `load` has returned. A key without a row is absent. */
export interface Loaded<Value> {
  readonly rows: ReadonlyMap<string, Value | undefined>;
  /** False: the rows must not be kept. */
  readonly keep: boolean;
  /** Seconds; 0: for ever. */
  readonly ttlSec: number;
}

/** An item, by its id. */
export interface Held {
  readonly key: string;
  readonly cas: string;
}

/** A value to store in the place of an item. */
export interface Fill<Value> extends Held {
  readonly entry: Entry<Value>;
  /** Seconds until it expires, without its grace; 0: never. */
  readonly ttlSec: number;
}

/** The result of a flow for one key. */
export type Outcome<Value> =
  | {
    readonly value: Value | undefined;
    readonly isStale: boolean;
    readonly from: "cache" | "load";
  }
  | { readonly error: unknown };

/** A step of a flow, executed by caches, the application or the clock. */
export type Step<Value> =
  /** Reads keys and versions of tags; takes a lease for each key that has no value. */
  | { readonly kind: "look"; readonly keys: readonly string[] }
  /** Calls the application's `load`. After `softMs` the result is "late", and `loadRest` waits for the rest. */
  | { readonly kind: "load"; readonly keys: readonly string[]; readonly softMs?: number }
  | { readonly kind: "loadRest" }
  /** Stores each value if the item still has its id. */
  | { readonly kind: "fill"; readonly fills: readonly Fill<Value>[] }
  /** Removes each item if it still has its id. */
  | { readonly kind: "drop"; readonly items: readonly Held[] }
  /** Asks for the right to load keys anew that have a value: one client gets it. */
  | { readonly kind: "claim"; readonly keys: readonly string[] }
  /** Gives that right back: the load has failed. */
  | { readonly kind: "unclaim"; readonly keys: readonly string[] }
  /** Gives a result to those who share the flow with its caller, and would wait for its load. */
  | { readonly kind: "offer"; readonly key: string; readonly outcome: Outcome<Value> }
  /** Gives the caller a result; the flow may go on. */
  | { readonly kind: "answer"; readonly key: string; readonly outcome: Outcome<Value> }
  | { readonly kind: "sleep"; readonly ms: number }
  /** Calls the application's `commit`. */
  | { readonly kind: "commit" }
  /** Removes values and leases. */
  | { readonly kind: "invalidate"; readonly keys: readonly string[] }
  | { readonly kind: "takeToken"; readonly key: string; readonly owner: string }
  | { readonly kind: "releaseToken"; readonly key: string; readonly id: string }
  /** Asks the server of rows for the flow's write, under a token. */
  | { readonly kind: "writeRow"; readonly key: string; readonly id: string }
  /** Releases the token of a write that may be in progress. */
  | { readonly kind: "endToken"; readonly key: string; readonly id: string };

/** The reply to a write of a row. */
export type RowReply =
  | { readonly state: "done"; readonly version: number }
  /** The token is not out: nothing was written under it, and nothing will be. */
  | { readonly state: "ended"; readonly cause: unknown }
  /** This attempt wrote nothing. */
  | { readonly state: "refused"; readonly cause: unknown }
  /** This attempt wrote nothing: another connection holds the row's lock. */
  | { readonly state: "locked" }
  /** The attempt is in progress, or its outcome is unknown. */
  | { readonly state: "unknown"; readonly cause: unknown };

/** The result of each step; a step may throw. */
export interface StepResults<Value> {
  readonly look: LookResult<Value>;
  readonly load: Loaded<Value> | "late";
  readonly loadRest: Loaded<Value>;
  readonly fill: void;
  readonly drop: void;
  /** The keys that the flow may load. */
  readonly claim: ReadonlySet<string>;
  readonly unclaim: void;
  readonly offer: void;
  readonly answer: void;
  /** Ms since the sleep before, or since the commit has ended or the flow begun; undefined: the pause itself. */
  readonly sleep: number | undefined;
  readonly commit: unknown;
  /** By key that was not invalidated, the reason. */
  readonly invalidate: ReadonlyMap<string, unknown>;
  /** Undefined: another connection holds the key's lock. */
  readonly takeToken: string | undefined;
  /** Whether the token was out until now. */
  readonly releaseToken: boolean;
  readonly writeRow: RowReply;
  /** False: a write under it is in progress, or it was not out any more. */
  readonly endToken: boolean;
}

export type StepKind = Step<unknown>["kind"];

/** A flow of the client. */
export type ClientFlow<Value, Result> = Flow<Step<Value>, Result>;

/** Yields one step. @returns Its result. */
export const step = stepOf<Step<unknown>, StepResults<unknown>>() as <Value, Kind extends StepKind>(
  request: Step<Value> & { readonly kind: Kind },
) => ClientFlow<Value, StepResults<Value>[Kind]>;
