import { pause } from "../../../lib/process/pause.ts";
import { OwnRows } from "../../../lib/rows/own_rows.ts";
import type { StepRunner } from "../../../lib/rows/origin/step_runner.ts";
import type { Cache } from "../../../store/cache.ts";

/** Returns the step `delete` of an origin without nodes, in which every key is a row. */
export function deleteIn(cache: Cache): StepRunner["delete"] {
  const own = new OwnRows(cache, [""], pause);
  return (rows) => own.invalidate(rows.keys, rows.writers!);
}
