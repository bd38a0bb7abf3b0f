import type { Fault } from "./fault.ts";
import { READ_FAULTS } from "./read_faults.ts";

/**
 * Faults of READ_FAULTS, by their descriptions, that threads over one store notice too: a scenario of
 * tests/parallel/scenario.ts for each. The others make a difference that lasts for one store of a word, or is
 * none to clients: the upper half of an id or of a flush, the mark of a stale value.
 */
const NOTICED: readonly (readonly [fault: string, scenario: string])[] = [
  ["an item leaves a bucket without a change of the version", "evicting"],
  ["a bucket is split without a change of the version", "splitting"],
  ["a key has no item for a moment while it is stored anew", "replacing"],
  ["a value is overwritten without a change of the version", "overwriting"],
  ["the version changes before a value is overwritten, not meanwhile", "overwriting"],
  ["a value grows in its chunk without a change of the version", "growing values"],
  ["a number changes in its chunk without a change of the version", "counting"],
  ["a read begins under an odd version", "overwriting"],
  ["what changed since a key was found is not noticed", "overwriting"],
  ["a dead item is read without the mutex", "expiring"],
  ["a flushed item is read without the mutex", "flushing"],
];

/** Faults that the parallel test notices. */
export const PARALLEL_FAULTS: readonly Fault[] = NOTICED.map(([description, scenario]) => {
  const fault = READ_FAULTS.find((one) => one.fault === description);
  if (fault === undefined) throw new Error(`There is no fault "${description}"`);
  return {
    ...fault,
    fault: `${description}, in parallel`,
    tests: "parallel/parallel",
    filter: scenario,
  };
});
