import { PartialError } from "./errors.ts";

/** More requests of one call wait until others of it are answered. */
const WINDOW_REQUESTS = 1_000;
/** Bytes of values that a call's requests have under way, unless one value alone has more. */
const WINDOW_BYTES = 1 << 22;

/** A part of a call: one request. */
export interface Part<Answer> {
  readonly name: string;
  /** Bytes of the value that is sent. */
  readonly bytes?: number;
  ask(): Promise<Answer>;
}

/**
 * Waits for many answers.
 *
 * @param resultOf Makes the call's result from the answers, by their names.
 * @throws PartialError Some have failed. If all have: the first error; the signal's reason, if it has aborted.
 */
export async function manyAnswers<Answer, Result>(
  parts: readonly Part<Answer>[],
  resultOf: (answers: readonly (readonly [name: string, answer: Answer])[]) => Result,
  signal?: AbortSignal,
): Promise<Result> {
  const settled: PromiseSettledResult<Answer>[] = [];
  await askInWindows(parts, (index, answer) => {
    settled[index] = answer;
    return true;
  });
  const answers: (readonly [name: string, answer: Answer])[] = [];
  const failed: string[] = [];
  const errors: unknown[] = [];
  for (const [index, each] of settled.entries()) {
    const { name } = parts[index]!;
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

/** Waits for all answers. @throws The first error: what has not been asked is not asked any more. */
export async function allAnswers<Answer>(
  parts: readonly Part<Answer>[],
): Promise<(readonly [name: string, answer: Answer])[]> {
  const answers: (readonly [name: string, answer: Answer])[] = [];
  let failure: PromiseRejectedResult | undefined;
  await askInWindows(parts, (index, answer) => {
    if (answer.status === "rejected") failure ??= answer;
    else answers[index] = [parts[index]!.name, answer.value];
    return failure === undefined;
  });
  if (failure !== undefined) throw failure.reason;
  return answers;
}

/**
 * Asks the parts of a call in windows: a large call neither fills the queue of its connection, nor makes other callers
 * wait for all of it.
 *
 * @param settled Gets each answer. @returns Whether the parts that wait are still wanted.
 */
function askInWindows<Answer>(
  parts: readonly Part<Answer>[],
  settled: (index: number, answer: PromiseSettledResult<Answer>) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    let next = 0;
    let out = 0;
    let bytesOut = 0;
    const ask = (index: number): void => {
      const part = parts[index]!;
      const { bytes = 0 } = part;
      out++;
      bytesOut += bytes;
      const end = (answer: PromiseSettledResult<Answer>): void => {
        out--;
        bytesOut -= bytes;
        if (settled(index, answer)) go();
        else resolve();
      };
      part.ask().then(
        (value) => end({ status: "fulfilled", value }),
        (reason) => end({ status: "rejected", reason }),
      );
    };
    const go = (): void => {
      while (next < parts.length && out < WINDOW_REQUESTS) {
        const { bytes = 0 } = parts[next]!;
        if (out > 0 && bytesOut + bytes > WINDOW_BYTES) return;
        ask(next++);
      }
      if (out === 0) resolve();
    };
    go();
  });
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
