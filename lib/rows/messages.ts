import type { Stat } from "../../protocol/stats/entry.ts";
import type { SharedMemory } from "../../store/setup.ts";
import type { TransportEvent } from "../net/transport.ts";
import type { ThreadMember } from "../net/transports.ts";
import type { NodeState } from "./flows/node_list.ts";
import type { RowToken } from "./flows/token_states.ts";
import type { NodeOptions } from "./nodes/options.ts";
import type { RowsOptions } from "./options.ts";

/** The start message of the database thread. */
export interface RowsStart {
  readonly options: RowsOptions | NodeOptions;
  readonly shared: SharedMemory;
  /** `Lifecycle.createShared` */
  readonly lifecycle: SharedArrayBuffer;
  /** The threads that serve connections, which the database thread wakes. */
  readonly member: ThreadMember;
  /** The mark of the rows that a snapshot has brought into the cache; null: it has no rows. */
  readonly savedMark: string | null;
  /** Whether the rows are saved at the end. */
  readonly savesRows: boolean;
}

/** Messages of the main thread to the database thread. */
export type RowsCommand =
  | { readonly kind: "start"; readonly start: RowsStart }
  /** Reads the file of views again. */
  | { readonly kind: "reload" }
  /** Answers what has been taken, and closes the database. */
  | { readonly kind: "stop" };

/** Messages of the database thread to the main thread. */
export type RowsMessage =
  /** The database is taken over, and requests are served. */
  | { readonly kind: "ready" }
  /** The database cannot be used. */
  | { readonly kind: "refused"; readonly reason: string; readonly isUsage: boolean }
  /** Sent now and then. */
  | {
    readonly kind: "state";
    readonly stats: readonly Stat[];
    /** Why `/health` is not well; null: it is. */
    readonly problem: string | null;
    /** The nodes of an origin. */
    readonly nodes: readonly NodeState[];
    /** The oldest update tokens of an origin. */
    readonly tokens: readonly (RowToken & { readonly ageMs: number })[];
  }
  /** Another server has taken the database over. */
  | { readonly kind: "deposed"; readonly reason: string }
  /** The thread has failed, and serves nothing any more. */
  | { readonly kind: "died"; readonly reason: string }
  /** Everything is answered, and the database is closed. `mark` is for rows that are saved; "": they must not be. */
  | { readonly kind: "ended"; readonly mark: string }
  | { readonly kind: "event"; readonly event: TransportEvent };
