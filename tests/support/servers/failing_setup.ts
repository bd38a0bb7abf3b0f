import { failWith, type LibcErrors, replaceCalls } from "./replaced_calls.ts";

/** io_uring_setup(2) */
export type Setup = (number: number, entries: number, params: Uint32Array) => number;

/**
 * Lets io_uring_setup(2) fail with an error number, in every library that this thread opens until it is disposed.
 *
 * @param spared Calls that succeed before.
 */
export function failingSetup(errno: number, spared = 0): Disposable {
  return replaceCalls<LibcErrors & { io_uring_setup: Setup }>((calls) => ({
    ...calls,
    io_uring_setup: (...args): number =>
      spared-- > 0 ? calls.io_uring_setup(...args) : failWith(calls, errno),
  }));
}
