import { slotsWithin, slotTableBytes } from "../../store/setup.ts";
import type { ServerArguments } from "./argv.ts";
import { sizeText } from "./values.ts";

/** The share of the memory that a table gets by default, and at most. */
const DEFAULT_SHARE = 1 / 64;
const LARGEST_SHARE = 1 / 4;

/**
 * Returns the size of the table of leases or of update tokens, in slots: as many as asked for, or by default no more
 * than fit in 1/64 of the memory.
 *
 * @param range Fewer than `least` are none by default, and `least` when asked for.
 * @throws RangeError when the table would take more than a quarter of the memory.
 */
export function tableEntries(
  { values, given }: ServerArguments,
  name: "lease-entries" | "token-entries",
  { least, most }: { readonly least: number; readonly most: number },
): number {
  const wanted = values[name];
  const memoryLimitBytes = values["memory-limit"];
  if (!given.has(name)) {
    const held = slotsWithin(memoryLimitBytes * DEFAULT_SHARE);
    return held < least ? 0 : Math.min(wanted, held, most);
  }
  if (wanted === 0) return 0;
  const entries = Math.max(wanted, least);
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
