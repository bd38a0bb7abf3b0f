import { assert } from "../../../store/base/assert.ts";
import { type Flow, stepOf } from "../../flow/flow.ts";
import type { Read, Right } from "./flows.ts";
import { EVERY_ROW, type KeySet } from "../../databases/views/key_set.ts";

/** The answer to a join. */
export interface Joined {
  readonly session: string;
  /** How long the node may serve rows, counted from before it asked. */
  readonly grantedMs: number;
}

/** The answer to a request for rows to delete. */
export interface Due extends KeySet {
  /** To be confirmed with the next request; 0: nothing is deleted. */
  readonly seq: number;
  readonly grantedMs: number;
}

/** A step of a node, executed by its cache or its origin. */
export type NodeStep =
  /** Removes rows and their leases from the cache: the keys in one step. */
  | KeySet & { readonly kind: "delete" }
  /** Begins a session, and ends the one before; "": none. */
  | { readonly kind: "join"; readonly session: string }
  /** Ends a session: no row is served any more. */
  | { readonly kind: "leave"; readonly session: string }
  /** Confirms deletions, and waits for the next ones or for a renewal. */
  | {
    readonly kind: "poll";
    readonly session: string;
    readonly confirmed: number;
    /** Whether a connection that breaks is a result; else it is an error. */
    readonly mayBreak: boolean;
  }
  /** Reads rows. */
  | { readonly kind: "read"; readonly session: string; readonly keys: readonly string[] };

/** The result of each step. The error that ends the membership is thrown. */
export interface NodeResults {
  readonly delete: void;
  readonly join: Joined;
  readonly leave: void;
  /** Null: the connection broke. */
  readonly poll: Due | null;
  readonly read: readonly Read[];
}

export type NodeResult = NodeResults[NodeStep["kind"]];

/** A flow of a node. */
export type NodeFlow<Result> = Flow<NodeStep, Result>;

const step = stepOf<NodeStep, NodeResults>();

/**
 * The flows of a node: a membership begins without rows. Each answer of the origin renews the right to serve rows,
 * counted from before the question was sent, and after the keys that it names were deleted.
 *
 * No socket and no clock, as in `Flows`: the explorer tries the steps in every order.
 */
export class NodeFlows {
  /** The session of the membership; "": none. */
  session = "";
  /** One that the origin may count on, until a join has ended it: its writes wait for it; "": none. */
  sessionBefore = "";
  readonly #right: Right;

  constructor(right: Right) {
    this.#right = right;
  }

  /** Becomes a member, without rows. @throws Why the origin cannot be asked, or refuses. */
  *join(): NodeFlow<void> {
    if (this.session !== "") this.sessionBefore = this.session;
    this.session = "";
    this.#right.renew(0);
    yield* step({ kind: "delete", ...EVERY_ROW });
    const sentMs = this.#right.nowMs();
    const { session, grantedMs } = yield* step({
      kind: "join",
      session: this.sessionBefore,
    });
    this.sessionBefore = "";
    this.session = session;
    this.#right.renew(sentMs + grantedMs);
  }

  /** Asks for deletions until something fails. A connection that broke is made once more. @throws What failed. */
  *serve(): NodeFlow<never> {
    const { session } = this;
    assert(session !== "", "only a member asks for deletions");
    let confirmed = 0;
    let mayBreak = true;
    for (;;) {
      const sentMs = this.#right.nowMs();
      const due: Due | null = yield* step({ kind: "poll", session, confirmed, mayBreak });
      mayBreak = due !== null;
      if (session !== this.session) throw new Error("the membership is over");
      if (due === null) continue;
      const { seq, keys, prefixes } = due;
      if (seq !== 0) yield* step({ kind: "delete", keys, prefixes });
      confirmed = Math.max(confirmed, seq);
      this.#right.renew(sentMs + due.grantedMs);
    }
  }

  /** Gives the membership up: rows that are there may miss deletions from here on. */
  leave(): void {
    this.#right.renew(0);
  }

  /** Ends the membership for good, and tells the origin: its writes need not wait. @throws Why it cannot be told. */
  *signOff(): NodeFlow<void> {
    const { session } = this;
    this.session = "";
    this.#right.end();
    yield* step({ kind: "leave", session });
  }

  /**
   * Reads rows under leases that the cache gave before. A deletion during the read ends these leases, so an old answer
   * fills nothing.
   *
   * @throws Why the origin does not answer.
   */
  *read(keys: readonly string[]): NodeFlow<readonly Read[]> {
    const { session } = this;
    const reads = yield* step({ kind: "read", session, keys });
    // The origin sends deletions to members only.
    return session === "" ? reads.map((read) => ({ ...read, cacheable: false })) : reads;
  }
}
