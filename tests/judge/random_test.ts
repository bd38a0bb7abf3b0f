import { assert, assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { hasAnOrder } from "./every_order.ts";
import { judge } from "./judge.ts";
import type { Operation } from "./operation.ts";
import { type Mixture, randomHistory } from "./random_histories.ts";

const HISTORIES = 20_000;
const OPERATIONS_MAX = 7;
/** Histories of each verdict, at least. */
const EACH_MIN = HISTORIES / 200;
/** Of histories in which the judge may miss a violation, the part in which it does, at most. */
const MISSED_MAX = 0.2;

function isAtomic(operations: readonly Operation[]): boolean {
  return judge(operations).violations.length === 0;
}

/** Whether a read found the row absent, and the history may leave open which absence that was. */
function hasUnclearAbsence(operations: readonly Operation[]): boolean {
  const deletes = operations.filter(({ operation, outcome }) =>
    operation === "delete" && outcome !== "failed"
  );
  const isNameless = deletes.some(({ outcome, version }) => outcome === "ok" && version === null);
  return deletes.length > 0 &&
    operations.some(({ operation, value, version, outcome }) =>
      operation === "get" && outcome === "ok" && value === null && (isNameless || version === null)
    );
}

function text(operations: readonly Operation[]): string {
  return operations.map((operation) => JSON.stringify(operation)).join("\n");
}

function randomMixture(random: () => number): Mixture {
  const chance = (most: number): number => random() < 0.3 ? 0 : random() * most;
  return {
    operations: OPERATIONS_MAX - Math.floor(random() ** 2 * OPERATIONS_MAX),
    clients: 2 + Math.floor(random() * 3),
    writes: 0.2 + random() * 0.6,
    deletes: random() < 0.4 ? 0 : random() * 0.7,
    unknown: chance(0.5),
    failed: chance(0.3),
    versions: random() < 0.5 ? 1 : random(),
    isDeleteNamed: random() < 0.7,
    wrong: random() < 0.4 ? 0 : random(),
  };
}

Deno.test("on random histories the judge says what a search through all orders says", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const count = { atomic: 0, wrong: 0, unclear: 0, unclearWrong: 0 };
    let missed = 0;
    for (let number = 0; number < HISTORIES; number++) {
      const operations = randomHistory(random, randomMixture(random));
      const expected = hasAnOrder(operations);
      if (hasUnclearAbsence(operations)) {
        // The judge may miss a violation, and finds none that is not there.
        assert(isAtomic(operations) || !expected, text(operations));
        if (isAtomic(operations) && !expected) missed++;
        else count[expected ? "unclear" : "unclearWrong"]++;
      } else {
        assertEquals(isAtomic(operations), expected, text(operations));
        count[expected ? "atomic" : "wrong"]++;
      }
    }
    assert(Math.min(...Object.values(count)) >= EACH_MIN, JSON.stringify(count));
    assert(missed <= MISSED_MAX * count.unclearWrong, `${missed} of ${count.unclearWrong}`);
  }));

Deno.test("what the judge shows of a contradiction is one by itself", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    let contradictions = 0;
    for (let number = 0; number < HISTORIES; number++) {
      const mixture = { ...randomMixture(random), operations: 12, isDeleteNamed: true };
      const operations = randomHistory(random, mixture);
      // Which deletion of unknown outcome has made an absence is the judge's choice.
      if (operations.some(({ value, outcome }) => value === null && outcome === "unknown")) {
        continue;
      }
      for (const { operations: shown } of judge(operations).violations) {
        contradictions++;
        // The writes of the values that are read are not always among them.
        const values = new Set(shown.map(({ value }) => value));
        const writes = operations.filter((each) =>
          each.operation !== "get" && values.has(each.value) && !shown.includes(each)
        );
        assert(!hasAnOrder([...writes, ...shown]), text([...writes, ...shown]));
        assert(shown.length <= 4, text(shown));
      }
    }
    assert(contradictions >= EACH_MIN, `${contradictions}`);
  }));
