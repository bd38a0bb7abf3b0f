import { PartialError } from "./errors.ts";

/**
 * Waits for many answers.
 *
 * @param resultOf Makes the call's result from the answers, by their names.
 * @throws PartialError Some have failed. If all have: the first error; the signal's reason, if it has aborted.
 */
export async function manyAnswers<Answer, Result>(
  asked: readonly (readonly [name: string, answer: Promise<Answer>])[],
  resultOf: (answers: readonly (readonly [name: string, answer: Answer])[]) => Result,
  signal?: AbortSignal,
): Promise<Result> {
  const answers: (readonly [name: string, answer: Answer])[] = [];
  const failed: string[] = [];
  const errors: unknown[] = [];
  for (
    const [index, each] of (await Promise.allSettled(asked.map(([, answer]) => answer))).entries()
  ) {
    const [name] = asked[index]!;
    if (each.status === "fulfilled") answers.push([name, each.value]);
    else {
      failed.push(name);
      errors.push(each.reason);
    }
  }
  if (failed.length > 0) signal?.throwIfAborted();
  if (answers.length === 0 && failed.length > 0) throw errors[0];
  const result = resultOf(answers);
  if (failed.length > 0) throw new PartialError(failed, errors, result);
  return result;
}

/** Settles with the promise, or rejects as soon as the signal aborts. */
export function abortable<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
