/**
 * A request, numbers in network order:
 *
 *   0 magic 0x80   1 opcode   2 length of the key (2)   4 length of the extras   5 data type   6 bucket (2)
 *   8 length of the body (4)   12 opaque (4)   16 cas id (8)   24 the body: extras, key, value
 *
 * Data type and bucket mean nothing.
 */
export const REQUEST_MAGIC = 0x80;
export const REPLY_MAGIC = 0x81;
/** Of requests and replies, in bytes. */
export const HEADER_LENGTH = 24;
