/**
 * Ends a call whose client is broken, instead of a result that may be another request's.
 *
 * @param message Constant text: it names what is broken.
 * @throws Error when `condition` does not hold.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`Broken invariant of the client: ${message}`);
}
