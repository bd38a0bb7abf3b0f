import { LEASE_ENTRIES_LEAST, LEASE_ENTRIES_MOST } from "../../store/memory/lease_layout.ts";
import { slotsWithin, slotTableBytes } from "../../store/memory/slot_table.ts";
import { sizeText } from "./values.ts";

/** The flag that marks a lease among values, and the bits of it that count. Both 0: leases are off in text. */
export interface LeaseFlag {
  readonly flag: number;
  readonly mask: number;
}

/** Without -z. */
export const NO_LEASE_FLAG: LeaseFlag = { flag: 0, mask: 0 };

const DEFAULT_MASK = 0xffff;
/** The most that leases may have of the memory: unless asked for, and at all. */
const DEFAULT_SHARE = 1 / 64;
const LARGEST_SHARE = 1 / 4;

/**
 * Reads `-z flag[:mask]`, both in hexadecimal, with or without 0x.
 *
 * @throws RangeError saying what is wrong with it.
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
      "no bit of the flag is in the mask, so a lease could not be told from a value",
    );
  }
  return { flag, mask };
}

/**
 * How many leases the store makes room for: as many as asked for, or the preset if 1/64 of the memory holds them.
 *
 * @param isAsked Whether the operator gave the number.
 * @throws RangeError when their table would take more than a quarter of the memory.
 */
export function leaseEntries(wanted: number, isAsked: boolean, memoryLimitBytes: number): number {
  if (!isAsked) {
    const held = slotsWithin(memoryLimitBytes * DEFAULT_SHARE);
    return held < LEASE_ENTRIES_LEAST ? 0 : Math.min(wanted, held, LEASE_ENTRIES_MOST);
  }
  if (wanted === 0) return 0;
  const entries = Math.max(wanted, LEASE_ENTRIES_LEAST);
  const bytes = slotTableBytes(entries);
  if (bytes > memoryLimitBytes * LARGEST_SHARE) {
    throw new RangeError(
      `their table takes ${bytes} bytes, and may take a quarter of -m (--memory-limit), ` +
        `which is ${sizeText(memoryLimitBytes)}`,
    );
  }
  return entries;
}
