import {
  LEASE_ENTRIES_LEAST,
  LEASE_ENTRIES_MOST,
  slotsWithin,
  slotTableBytes,
} from "../../store/setup.ts";
import { sizeText } from "./values.ts";

/** The client flags that mark a lease, and the mask of the bits that count. Both 0: getss and deletess are off. */
export interface LeaseFlag {
  readonly flag: number;
  readonly mask: number;
}

/** Without -z. */
export const NO_LEASE_FLAG: LeaseFlag = { flag: 0, mask: 0 };

const DEFAULT_MASK = 0xffff;
/** The largest share of the memory for leases: by default, and with --lease-entries. */
const DEFAULT_SHARE = 1 / 64;
const LARGEST_SHARE = 1 / 4;

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

/**
 * Returns the size of the lease table, in leases: `wanted`, or by default no more than fit in 1/64 of the memory.
 *
 * @param isAsked Whether the operator gave the number.
 * @throws RangeError when the table would take more than a quarter of the memory.
 */
export function leaseEntries(wanted: number, isAsked: boolean, memoryLimitBytes: number): number {
  if (!isAsked) {
    const held = slotsWithin(memoryLimitBytes * DEFAULT_SHARE);
    return held < LEASE_ENTRIES_LEAST ? 0 : Math.min(wanted, held, LEASE_ENTRIES_MOST);
  }
  if (wanted === 0) return 0;
  const entries = Math.max(wanted, LEASE_ENTRIES_LEAST);
  const bytes = slotTableBytes(entries);
  const bytesMost = memoryLimitBytes * LARGEST_SHARE;
  if (bytes > bytesMost) {
    throw new RangeError(
      `must be at most ${slotsWithin(bytesMost)}: the table takes ${bytes} bytes, and may take ` +
        `${bytesMost}, a quarter of -m (--memory-limit) ${sizeText(memoryLimitBytes)}`,
    );
  }
  return entries;
}
