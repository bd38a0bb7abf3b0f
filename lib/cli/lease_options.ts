/** The client flags that mark a lease, and the mask of the bits that count. Both 0: getss and deletess are off. */
export interface LeaseFlag {
  readonly flag: number;
  readonly mask: number;
}

/** Without -z. */
export const NO_LEASE_FLAG: LeaseFlag = { flag: 0, mask: 0 };

const DEFAULT_MASK = 0xffff;

/**
 * Reads `-z flag[:mask]`, both in hexadecimal, with or without 0x.
 *
 * @throws RangeError when the text is malformed or no bit of the flag is in the mask.
 */
export function readLeaseFlag(text: string): LeaseFlag {
  const match = /^(?:0x)?([0-9a-f]{1,8})(?::(?:0x)?([0-9a-f]{1,8}))?$/i.exec(text);
  if (match === null) {
    throw new RangeError("must be flag or flag:mask, hexadecimal numbers of up to 32 bits");
  }
  const flag = parseInt(match[1]!, 16);
  const mask = match[2] === undefined ? DEFAULT_MASK : parseInt(match[2], 16);
  if ((flag & mask) === 0) {
    throw new RangeError(
      "flag and mask must share a bit, otherwise a lease looks like a value",
    );
  }
  return { flag, mask };
}
