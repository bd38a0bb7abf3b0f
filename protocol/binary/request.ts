/**
 * A request, numbers in network order:
 *
 *   0 magic 0x80   1 opcode   2 length of the key (2)   4 length of the extras   5 data type   6 bucket (2)
 *   8 length of the body (4)   12 opaque (4)   16 cas id (8)   24 the body: extras, key, value
 *
 * Data type and bucket mean nothing.
 */
export const REQUEST_MAGIC = 0x80;
/** Of requests and replies, in bytes. */
export const HEADER_LENGTH = 24;

/**
 * The fields of a binary request beside the key, the value and the numbers in the operation. One a thread,
 * filled anew by the parser.
 */
export class BinaryRequest {
  opcode = 0;
  /** Given back in every reply, as int32. */
  opaque = 0;
  /** Success, or a miss of a read, is not answered. */
  quiet = false;
  /** Offset of the extras in the thread's input, and their length in bytes. */
  extrasOffset = 0;
  extrasLength = 0;
  /** The key's hash, for commands that are executed in groups. */
  hash = 0;

  /** A copy for a reply that is given later. */
  copy(): BinaryRequest {
    return Object.assign(new BinaryRequest(), this);
  }
}
