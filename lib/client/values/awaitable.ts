/** A value, or a promise of it: what is there at once costs no turn of the event loop. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Returns what `fn` makes of a value, at once if the value is there. */
export function after<Value, Result>(
  value: Awaitable<Value>,
  fn: (value: Value) => Awaitable<Result>,
): Awaitable<Result> {
  return value instanceof Promise ? value.then(fn) : fn(value);
}
