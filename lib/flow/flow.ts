/**
 * The order of the steps of something that takes several, without a socket and a clock. A flow yields its steps one by
 * one, and receives their results or errors: a runner executes them, or the explorer, in every order. Between two
 * yields it runs without interruption. A flow runs another one by `yield*`.
 */
export type Flow<Step, Result> = Generator<Step, Result, unknown>;

/** A step, by its kind. */
export interface Kinded {
  readonly kind: string;
}

/** Yields a step. @returns Its result. */
type YieldStep<Step extends Kinded, Results extends Record<Step["kind"], unknown>> = <
  Kind extends Step["kind"],
>(request: Step & { readonly kind: Kind }) => Flow<Step, Results[Kind]>;

/**
 * Returns the function with which the flows of one language yield a step.
 *
 * @template Results The result of each step, by its kind.
 */
export function stepOf<
  Step extends Kinded,
  Results extends Record<Step["kind"], unknown>,
>(): YieldStep<Step, Results> {
  return function* <Kind extends Step["kind"]>(
    request: Step & { readonly kind: Kind },
  ): Flow<Step, Results[Kind]> {
    return (yield request) as Results[Kind];
  };
}

/**
 * Runs a flow to its end.
 *
 * @param take Executes one step. A result that is no promise is handed on in the same turn of the event loop.
 * @throws The flow's error.
 */
export async function runFlow<Step, Result>(
  flow: Flow<Step, Result>,
  take: (step: Step) => unknown,
): Promise<Result> {
  let next = flow.next();
  while (!next.done) {
    let result: unknown;
    try {
      result = take(next.value);
      if (result instanceof Promise) result = await result;
    } catch (error) {
      next = flow.throw(error);
      continue;
    }
    next = flow.next(result);
  }
  return next.value;
}
