import { assertEquals } from "@std/assert";
import type { ClientFlow, Step } from "../../../../lib/client/flows/steps.ts";

/** The result of a step, or the error that it throws. */
export type Given = unknown | { readonly throws: unknown };

/** Steps of a flow with the results that it gets; those without results are not named. */
export class Play {
  readonly steps: Step<unknown>[] = [];
  readonly #given: Given[];

  constructor(given: readonly Given[]) {
    this.#given = [...given];
  }

  /** Plays a flow to its end. Steps of these kinds have no result. @returns The flow's. */
  run<Result>(flow: ClientFlow<unknown, Result>): Result {
    const silent = ["answer", "sleep", "drop", "fill", "unclaim", "offer"];
    let next = flow.next();
    while (!next.done) {
      this.steps.push(next.value);
      const given = silent.includes(next.value.kind) ? undefined : this.#take(next.value.kind);
      const isError = typeof given === "object" && given !== null && "throws" in given;
      next = isError
        ? flow.throw((given as { throws: unknown }).throws)
        : flow.next(given as never);
    }
    assertEquals(this.#given, [], "results that no step asked for");
    return next.value;
  }

  #take(kind: string): Given {
    if (this.#given.length === 0) throw new Error(`one ${kind} too many`);
    return this.#given.shift();
  }
}
