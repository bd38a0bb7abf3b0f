import { assert } from "./assert.ts";

/** A piece of work in progress. No promise may reject. */
export interface Work<Answer> {
  /** The answer to the caller who has begun it. */
  readonly answer: Promise<Answer>;
  /** The answer to those who share it, which may come earlier. From then on the next work may begin. */
  readonly shared: Promise<Answer>;
}

/**
 * Begins work.
 *
 * @param previous The answer of the work that this one has waited for, for `waitedMs`; undefined: for none.
 */
type Begin<Answer> = (previous: Answer | undefined, waitedMs: number) => Work<Answer>;

interface Lane<Answer> {
  /** When the next work may begin: with the answer of the one before. */
  isFree: Promise<Answer | undefined>;
  /** The answer to those who join the work that has not begun. */
  next: Promise<Answer> | undefined;
}

/**
 * Lets callers of the same key share work. A caller joins only work that has not begun: work in progress may have
 * looked at the cache, or the database, before an update that the caller knows of.
 */
export class Lanes<Answer> {
  readonly #lanes = new Map<string, Lane<Answer>>();

  /** Joins the next work of a key. @param begin Called when it may begin, unless another caller's is. */
  join(key: string, begin: Begin<Answer>): Promise<Answer> {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { isFree: Promise.resolve(undefined), next: undefined };
      this.#lanes.set(key, lane);
    }
    return lane.next ?? this.#append(key, lane, begin);
  }

  #append(key: string, lane: Lane<Answer>, begin: Begin<Answer>): Promise<Answer> {
    const sinceMs = performance.now();
    const begun = lane.isFree.then((previous) => {
      assert(lane.next === shared, "the work of a lane begins in its order");
      assert(this.#lanes.get(key) === lane, "a key has one lane");
      lane.next = undefined;
      return begin(previous, performance.now() - sinceMs);
    });
    const shared: Promise<Answer> = begun.then((work) => work.shared);
    lane.next = shared;
    const isFree = shared.then((answer) => {
      if (lane.isFree === isFree && lane.next === undefined) this.#lanes.delete(key);
      return answer;
    });
    lane.isFree = isFree;
    return begun.then((work) => work.answer);
  }
}
