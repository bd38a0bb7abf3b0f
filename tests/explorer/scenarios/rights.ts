import type { RightFault, RightScenario } from "../origins/right_scenario.ts";

// Scenarios with the time for which an origin may serve rows without its database: no read at an origin that another
// one has replaced is older than what was committed before it.

const EVENTS = { renew: 1, takeOver: 1, tick: 4, drift: 1 } as const;

const fault = (name: string, broken: RightFault, wrongAfter: number): RightScenario => ({
  name: `right fault: ${name}`,
  events: EVENTS,
  fault: broken,
  wrongAfter,
});

// deno-fmt-ignore
export const RIGHTS: readonly RightScenario[] = [
  { name: "right: another takes over, and the clocks drift", events: { ...EVENTS, renew: 2 } },
  { name: "right: the first origin ends, and another takes over", events: { ...EVENTS, shutDown: 1 } },
  { name: "right: the first origin is killed, and another takes over", events: { ...EVENTS, kill: 1 } },
  { name: "right: the first origin has a lock, and is killed",
    events: { takeOver: 1, tick: 4, kill: 1 }, hasLock: true },
  fault("the clock is not looked at", "looksNever", 14),
  fault("the clock is looked at before the request was received", "looksEarly", 14),
  fault("the right begins with the answer", "countsFromAnswer", 17),
  fault("the right is renewed in another's epoch", "renewsWhenDeposed", 17),
  fault("the second origin does not wait", "waitsNever", 11),
  fault("the second origin waits without a margin", "waitsWithoutMargin", 14),
  { name: "right fault: the end is noted before the right is given up",
    events: { ...EVENTS, shutDown: 1 }, fault: "notesEndEarly", wrongAfter: 13 },
];
