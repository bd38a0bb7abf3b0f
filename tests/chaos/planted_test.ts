import { assert, assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { assertPlantedAreFound } from "./planted.ts";
import { Recording, type Write } from "./recording.ts";

const RUNS = 40;
const KEYS = 5;
const CLIENTS = 6;
const STEPS = 1500;

/** A row of the model. */
interface Row {
  readonly value: string | null;
  readonly version: number;
}

/** What a client of the model is about to do next. */
type Step = () => Step;

/** Records clients of rows that are atomic: a request takes effect in one step, between its beginning and its end. */
function recordModel(random: () => number): Recording {
  const recording = new Recording();
  const rows = new Map<string, Row>();
  let [now, values] = [0, 0];
  const rowOf = (key: string): Row => rows.get(key) ?? { value: null, version: 0 };
  const read = (by: string, key: string): Step => {
    const began = now++;
    return () => {
      const row = rowOf(key);
      const isSaid = random() < 0.5;
      return () => {
        recording.read({
          ...{ by, command: isSaid ? "gets" : "get", key, value: row.value, began, ended: now++ },
          version: isSaid && row.value !== null ? row.version : null,
        });
        return begin(by);
      };
    };
  };
  const write = (by: string, key: string): Step => {
    const write = recording.begin(by, "set", key, `v${values++}`, now++);
    const isCut = random() < 0.1;
    if (random() < 0.1) return () => fail(write, by);
    return () => {
      const version = rowOf(key).version + 1;
      rows.set(key, { value: write.value, version });
      recording.commit([{ key, value: write.value!, version }]);
      if (isCut) return begin(by);
      return () => {
        recording.acknowledge(write, version, now++);
        return begin(by);
      };
    };
  };
  const fail = (write: Write, by: string): Step => {
    recording.fail(write, now++);
    return begin(by);
  };
  const begin = (by: string) => (): Step => {
    const key = `k${Math.floor(random() * KEYS)}`;
    return random() < 0.4 ? write(by, key) : read(by, key);
  };
  const clients = Array.from({ length: CLIENTS }, (_, index): Step => begin(`client ${index}`));
  for (let step = 0; step < STEPS; step++) {
    const index = Math.floor(random() * CLIENTS);
    clients[index] = clients[index]!();
  }
  return recording;
}

Deno.test("both checkers find planted stale reads, lost writes and duplicates, and nothing in right runs", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    let planted = 0;
    for (let run = 0; run < RUNS; run++) {
      const recording = recordModel(random);
      recording.assertIsRight();
      planted += assertPlantedAreFound(recording, KEYS);
    }
    assert(planted >= RUNS, `${planted} faults were planted`);
  }));

Deno.test("of a write that is not told, both checkers believe that it may or may not have happened", () => {
  for (const value of ["a", null]) {
    const recording = new Recording();
    recording.begin("A", "set", "k", "a", 0);
    if (value !== null) recording.commit([{ key: "k", value, version: 1 }]);
    recording.read({
      ...{ by: "B", command: "get", key: "k", value, version: null, began: 1, ended: 2 },
    });
    recording.assertIsRight();
  }
});

Deno.test("a failed write that was read is found by both checkers", () => {
  const recording = new Recording();
  recording.fail(recording.begin("A", "set", "k", "a", 0), 1);
  recording.read({
    ...{ by: "B", command: "get", key: "k", value: "a", version: null, began: 2, ended: 3 },
  });
  assertEquals(recording.find(), {
    byCommits: ["never committed: [2..3] B read k = a"],
    byZones: [
      'key "k": what was read is of a write that has failed\n' +
      '  [0..1] "A" set "a", failed\n  [2..3] "B" get "a"',
    ],
  });
});
