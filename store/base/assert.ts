/**
 * A broken invariant ends the process: a cache may forget, it may not hand out wrong bytes.
 *
 * @param message Constant text, so that a passing assertion costs nothing.
 * @throws Error when `condition` does not hold.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`Broken invariant: ${message}`);
}
