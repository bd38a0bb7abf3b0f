import { reasonOf } from "../../lib/process/reason.ts";
import type { Plan } from "./plan.ts";
import { type Ran, simulate } from "./simulation.ts";

/** Calls a function outside of promises, in a turn of the event loop of its own: `simulate` needs that. */
export function outside<Result>(act: () => Result): Promise<Result> {
  return new Promise((resolve, reject) => {
    setTimeout(() => {
      try {
        resolve(act());
      } catch (error) {
        reject(error);
      }
    });
  });
}

/** Runs a plan. Promises that are rejected, and that nobody looks at, are violations: they end a thread. */
export async function runPlan(plan: Plan, keepsTranscript = false): Promise<Ran> {
  const reasons: string[] = [];
  const note = (event: PromiseRejectionEvent): void => {
    event.preventDefault();
    const { reason } = event;
    reasons.push(`a thread fails: ${reason instanceof Error ? reason.stack : reasonOf(reason)}`);
  };
  globalThis.addEventListener("unhandledrejection", note);
  try {
    const ran = await outside(() => simulate(plan, keepsTranscript));
    // They are told after a turn of the event loop.
    await outside(() => {});
    return { ...ran, violations: [...ran.violations, ...reasons] };
  } finally {
    globalThis.removeEventListener("unhandledrejection", note);
  }
}
