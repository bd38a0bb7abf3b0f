/** The connection is lost: the server may or may not have executed the last statement. */
export class LostError extends Error {
  override readonly name = "LostError";
}
