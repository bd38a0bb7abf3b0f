import type { SavedScenario } from "../saved/saved_scenario.ts";

// Scenarios with an origin that stops and starts with a snapshot: rows that come back are those of the database.

// deno-fmt-ignore
export const SAVED: readonly SavedScenario[] = [
  { name: "saved rows: a reader, a writer, two restarts", clients: ["reader", "writer"], events: { stop: 2 } },
  { name: "saved rows: other origins between", clients: ["reader", "writer"],
    events: { stop: 2, other: 1, otherKilled: 1 } },
  { name: "saved rows: kills and other origins between", clients: ["reader", "writer"],
    events: { stop: 2, kill: 1, otherKilled: 1 } },
  { name: "saved rows: the database is restored", clients: ["reader", "writer"],
    events: { stop: 2, copy: 1, restore: 1 } },
  { name: "saved rows: a direct writer, followed", clients: ["reader", "direct"], follows: true,
    events: { stop: 2 } },
  { name: "saved rows: direct writers and another origin, followed", clients: ["direct", "direct"], follows: true,
    events: { stop: 1, other: 1, kill: 1 } },
  { name: "saved rows fault: rows come back whatever the mark", clients: [], events: { stop: 1, other: 1 },
    fault: "keepsAlways", wrongAfter: 4 },
  { name: "saved rows fault: epochs are compared, and the database is restored", clients: ["writer", "reader"],
    events: { stop: 2, copy: 1, restore: 1 }, fault: "comparesEpochs", wrongAfter: 10 },
  { name: "saved rows fault: names of marks are compared, not their epochs", clients: [],
    events: { stop: 1, otherKilled: 1 }, fault: "comparesNames", wrongAfter: 4 },
  { name: "saved rows fault: the mark is noted at the start", clients: ["writer", "reader"],
    events: { stop: 1, copy: 1, restore: 1 }, fault: "marksEarly", wrongAfter: 9 },
  { name: "saved rows fault: rows are served before the log was applied", clients: ["direct"], follows: true,
    events: { stop: 1 }, fault: "servesEarly", wrongAfter: 5 },
  { name: "saved rows fault: a snapshot is loaded again after a kill", clients: ["writer"],
    events: { stop: 1, kill: 1 }, fault: "loadsAgain", wrongAfter: 7 },
];
