import { assert } from "./assert.ts";

/** A piece of work in progress: its answer, and its end, which may come later. Neither may reject. */
export interface Work<Answer> {
  readonly answer: Promise<Answer>;
  readonly end: Promise<void>;
}

interface Lane<Answer> {
  /** The end of the work that began last. */
  end: Promise<void>;
  /** The answer of the work that has not begun. */
  next: Promise<Answer> | undefined;
}

/**
 * Lets callers of the same key share work. A caller joins only work that has not begun: work in progress may have
 * looked at the cache, or the database, before an update that the caller knows of.
 */
export class Lanes<Answer> {
  readonly #lanes = new Map<string, Lane<Answer>>();

  /** Joins the next work of a key. @param begin Called when the work before has ended, unless another caller's is. */
  join(key: string, begin: () => Work<Answer>): Promise<Answer> {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { end: Promise.resolve(), next: undefined };
      this.#lanes.set(key, lane);
    }
    return lane.next ?? this.#append(key, lane, begin);
  }

  #append(key: string, lane: Lane<Answer>, begin: () => Work<Answer>): Promise<Answer> {
    const begun = lane.end.then(() => {
      assert(lane.next === answer, "the work of a lane begins in its order");
      assert(this.#lanes.get(key) === lane, "a key has one lane");
      lane.next = undefined;
      return begin();
    });
    const answer: Promise<Answer> = begun.then((work) => work.answer);
    lane.next = answer;
    const end: Promise<void> = begun.then((work) => work.end).then(() => {
      if (lane.end === end && lane.next === undefined) this.#lanes.delete(key);
    });
    lane.end = end;
    return answer;
  }
}
