import { assert } from "../../../store/base/assert.ts";
import { type Flow, stepOf } from "../../flow/flow.ts";
import type { Due, Joined } from "./node_flows.ts";
import type { NodeList } from "./node_list.ts";

/** Keys that one reply asks a node to delete. */
export const KEYS_MAX = 256;

/** The next step of a request of a node. */
export type ServiceStep =
  /** The database learns that there are nodes. */
  | { readonly kind: "noteNodes" }
  /** A key that the node must delete, or the time for a renewal. */
  | { readonly kind: "waitForDue"; readonly session: string };

/** The result of each step. The database throws its own errors. */
export interface ServiceResults {
  /** Whether this is the active origin. */
  readonly noteNodes: boolean;
  readonly waitForDue: void;
}

/** The answer to a request of a node, after its steps. */
export type ServiceFlow<Result> = Flow<ServiceStep, Result>;

const step = stepOf<ServiceStep, ServiceResults>();

/** An origin's own right to serve rows: see `ServingRight`. */
export interface OriginRight {
  readonly isTimed: boolean;
  readonly deadlineMs: number;
  nowMs(): number;
}

/** The flows with which an origin answers its nodes: a node gets no more time than the origin has itself. */
export class NodeService {
  readonly #nodes: NodeList;
  readonly #right: OriginRight;
  /** Whether the database knows that there are nodes. */
  #isNoted = false;
  #isStopping = false;

  constructor(nodes: NodeList, right: OriginRight) {
    this.#nodes = nodes;
    this.#right = right;
  }

  /** Grants nothing from here on. */
  stop(): void {
    this.#isStopping = true;
  }

  /**
   * Begins the session of a node that has no rows: `NodeList.join`.
   *
   * @throws Why the node is refused; the database's error.
   */
  *join(name: string, old: string): ServiceFlow<Joined> {
    // The next origin must wait for the node, before the node may serve.
    if (!this.#isNoted) {
      if (!(yield* step({ kind: "noteNodes" }))) {
        throw new Error("another server has taken the database over");
      }
      this.#isNoted = true;
    }
    this.#checkStop();
    const session = this.#nodes.join(name, old, this.#right.nowMs());
    if (session === null) throw new Error("too many nodes");
    const grantedMs = this.#renew(session);
    assert(grantedMs !== null, "a session that begins is renewed");
    return { session, grantedMs };
  }

  /**
   * Waits until the node must delete something, or must renew its right, which it does thereby.
   *
   * @param confirmed The last deletion that the node has executed.
   * @returns Null: the session is over.
   * @throws RangeError: the node was not sent this deletion. This origin ends.
   */
  *poll(session: string, confirmed: number): ServiceFlow<Due | null> {
    this.#nodes.confirm(session, confirmed);
    if (!this.#nodes.isReadable(session)) return null;
    if (this.#nodes.due(session, 1).seq === 0 && !this.#isStopping) {
      yield* step({ kind: "waitForDue", session });
    }
    const grantedMs = this.#renew(session);
    if (grantedMs === null) return null;
    this.#checkStop();
    return { ...this.#nodes.send(session, KEYS_MAX), grantedMs };
  }

  #renew(session: string): number | null {
    return this.#nodes.renew(session, this.#servesMs, this.#right.nowMs());
  }

  /** How long this origin may serve rows itself. */
  get #servesMs(): number {
    const { isTimed, deadlineMs } = this.#right;
    return isTimed || deadlineMs < 0 ? deadlineMs - this.#right.nowMs() : Infinity;
  }

  #checkStop(): void {
    if (this.#isStopping) throw new Error("this origin ends");
  }
}
