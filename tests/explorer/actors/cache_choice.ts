import type { Actor, MakeActor, Step } from "../steps.ts";

/** The same actor at another cache. @param cache Its number, from 0. */
export function atCache(cache: number, act: MakeActor): MakeActor {
  return function* (name: string): Actor {
    const actor = act(name);
    let result = actor.next();
    while (!result.done) {
      const step: Step = result.value;
      result = actor.next(yield step.kind === "ask" ? { ...step, cache } : step);
    }
  };
}
