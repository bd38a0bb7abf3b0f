/**
 * The opcodes of the binary protocol, quiet forms included: memcached's, from 0x40 on yrmcds's, from 0x60 on this
 * server's own for leases and update tokens.
 */
// deno-fmt-ignore
export const OPCODES = {
  Get:            [0x00, 0x09],
  Set:            [0x01, 0x11],
  Add:            [0x02, 0x12],
  Replace:        [0x03, 0x13],
  Delete:         [0x04, 0x14],
  Increment:      [0x05, 0x15],
  Decrement:      [0x06, 0x16],
  Quit:           [0x07, 0x17],
  Flush:          [0x08, 0x18],
  Noop:           [0x0a, null],
  Version:        [0x0b, null],
  GetK:           [0x0c, 0x0d],
  Append:         [0x0e, 0x19],
  Prepend:        [0x0f, 0x1a],
  Stat:           [0x10, null],
  Touch:          [0x1c, null],
  GaT:            [0x1d, 0x1e],
  SaslMechanisms: [0x20, null],
  SaslAuth:       [0x21, null],
  SaslStep:       [0x22, null],
  GaTK:           [0x23, 0x24],
  Lock:           [0x40, 0x41],
  Unlock:         [0x42, 0x43],
  UnlockAll:      [0x44, 0x45],
  LaG:            [0x46, 0x47],
  LaGK:           [0x48, 0x49],
  RaU:            [0x4a, 0x4b],
  Keys:           [0x50, null],
  GetSS:          [0x60, null],
  GetSSK:         [0x62, null],
  DeleteSS:       [0x64, 0x65],
  TokenGet:       [0x68, null],
  TokenRelease:   [0x6a, 0x6b],
} as const satisfies Record<string, readonly [opcode: number, quietOpcode: number | null]>;

/** The name of a command, as `stats ops` has it; a quiet form's name ends with Q. */
export type BinaryCommandName = keyof typeof OPCODES;
