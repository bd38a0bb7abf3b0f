import type { RowFault } from "../actors/row_putters.ts";

/**
 * - `tick`: all clocks go on
 * - `drift`: a clock loses as much as it may, in a tick
 * - `lose`: a node's connection breaks, before or after the origin has received its question; a write that it forwards
 *   may arrive all the same, later
 * - `join`: a node that is no member joins
 * - `end`: a member ends, and says so
 * - `confirm`: an origin has its right confirmed by the database
 * - `kill`: the first origin is killed
 * - `takeOver`: the stand-by takes over; while the first origin lives, by force
 */
export type NodeEvent =
  | "tick"
  | "drift"
  | "lose"
  | "join"
  | "end"
  | "confirm"
  | "kill"
  | "takeOver";

/** A rule that is broken on purpose. */
export type NodeFault =
  /** A reader's thread looks at the clock before the request has been received. */
  | "looksEarly"
  /** A reader's thread does not look at the clock. */
  | "looksNever"
  /** A node counts its time from the answer. */
  | "countsFromAnswer"
  /** An origin goes on without a node without a margin. */
  | "leavesMarginOut"
  /** A node joins with its rows. */
  | "keepsRows"
  /** A write waits only for nodes whose request is at the origin. */
  | "deletesInMembersOnly"
  /** A write goes on when the deletion was sent to the nodes. */
  | "confirmsEarly"
  /** An origin grants more time than it has itself. */
  | "grantsTooMuch"
  /** The database does not know that there are nodes. */
  | "notesNothing"
  /** The stand-by does not wait. */
  | "waitsNever"
  /** A node that ends says so while it serves rows. */
  | "signsOffEarly";

/** A client: a reader of the row at a node, a writer by `putRow` at a node, or a writer at an origin. */
export type NodeClient =
  | { readonly kind: "putter"; readonly node: number; readonly fault?: RowFault }
  | { readonly kind: "reader"; readonly node: number }
  | { readonly kind: "writer"; readonly origin: number };

/** Origins, one after the other, and nodes; the first nodes are members and have the row. */
export interface NodeScenario {
  readonly name: string;
  readonly clients: readonly NodeClient[];
  readonly nodes: number;
  /** Nodes that are members at the beginning, and have the row; left out: all. */
  readonly members?: number;
  /** Members do not have the row at the beginning. */
  readonly isCold?: boolean;
  /** Most occurrences of each event. */
  readonly events: Readonly<Partial<Record<NodeEvent, number>>>;
  /** The right of an origin has a time, as before PostgreSQL; left out: a lock that ends with its process. */
  readonly isTimed?: boolean;
  /** How far clocks go on at once; left out: half a membership. */
  readonly tickMs?: number;
  readonly fault?: NodeFault;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
