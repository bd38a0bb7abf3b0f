/**
 * - `restart`: the origin is killed and starts again
 * - `loseNode`: the membership of a node is over
 * - `loseSlot`: the log is lost from the confirmed position on; a new one begins behind changes that reads see
 */
export type FollowEvent = "restart" | "loseNode" | "loseSlot";

/** A rule that is broken on purpose. */
export type FollowFault =
  /** The log names only the new key of an update. */
  | "leavesOldKeyOut"
  /** A position is confirmed before the caches have answered. */
  | "confirmsEarly"
  /** A deletion leaves the lease, so what was read before is filled. */
  | "keepsLease"
  /** The origin's cache knows no deletions of a prefix. */
  | "forgetsPrefixHere"
  /** Only the first node deletes. */
  | "forgetsOneNode"
  /** A position is confirmed before the nodes have answered. */
  | "leavesNodesBehind"
  /** Nodes know no deletions of a prefix. */
  | "forgetsPrefixAtNode"
  /** A node joins again with its rows. */
  | "keepsRows"
  /** Changes are applied before reads see them. */
  | "appliesUnseen"
  /** A new log begins behind a change that reads do not see. */
  | "beginsBehindUnseen"
  /** After a loss of the log nothing is emptied. */
  | "emptiesNothing"
  /** The log may be continued while old rows are left. */
  | "beginsEarly";

/**
 * What a direct writer does to the table: a new value, or a new key, which leaves this one absent. `setSome`: a new
 * value, of which the log says only what the keys that it concerns begin with, as of a view with a join.
 */
export type DirectDeed = "set" | "rename" | "setSome";

/** A client of the row. */
export type FollowClient =
  | { readonly kind: "reader" }
  /** Lease, read at the origin, fill. */
  | { readonly kind: "nodeReader"; readonly node: number }
  | { readonly kind: "direct"; readonly deed: DirectDeed }
  /** Writes through the origin. */
  | { readonly kind: "writer" };

/** An origin that follows the log, and nodes. All have the row at the beginning. */
export interface FollowScenario {
  readonly name: string;
  readonly clients: readonly FollowClient[];
  /** Left out: none. */
  readonly nodes?: number;
  /** Nothing is cached at the beginning. */
  readonly isCold?: boolean;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Partial<Record<FollowEvent, number>>>;
  readonly fault?: FollowFault;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
