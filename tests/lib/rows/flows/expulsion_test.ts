import { assertEquals } from "@std/assert";
import { emptyAll, expelKeys } from "../../../../lib/rows/flows/expulsion.ts";
import type { FlowStep, RowFlow } from "../../../../lib/rows/flows/steps.ts";
import { EVERY_ROW, everyKeyOf } from "../../../../lib/databases/views/key_range.ts";

const NODES = { size: 1 };

function stepsOf(flow: RowFlow<void>): FlowStep[] {
  const steps: FlowStep[] = [];
  for (let yielded = flow.next(); !yielded.done; yielded = flow.next(undefined)) {
    steps.push(yielded.value);
  }
  return steps;
}

Deno.test("prefixes and keys are deleted here, and then in nodes, if there are any", () => {
  const prefix = everyKeyOf("view:");
  const keys = [prefix, "one", "two"];
  assertEquals(stepsOf(expelKeys(keys, NODES)), [
    { kind: "expelPrefixesHere", prefixes: ["view:"] },
    { kind: "invalidateNodes", keys: [prefix] },
    { kind: "expelHere", keys: ["one", "two"] },
    { kind: "invalidateNodes", keys: ["one", "two"] },
  ]);
  assertEquals(stepsOf(expelKeys(keys)).map(({ kind }) => kind), [
    ...["expelPrefixesHere", "expelHere"],
  ]);
});

Deno.test("a large change is deleted in groups, every key once", () => {
  const keys = Array.from({ length: 2500 }, (_, index) => `k${index}`);
  const groups = stepsOf(expelKeys(keys)).map((step) => step as FlowStep & { kind: "expelHere" });
  assertEquals(groups.map((step) => step.keys.length), [1000, 1000, 500]);
  assertEquals(groups.flatMap((step) => step.keys), keys);
});

Deno.test("all is emptied here, and all rows in nodes", () => {
  assertEquals(stepsOf(emptyAll(NODES)), [
    { kind: "emptyHere" },
    { kind: "invalidateNodes", keys: [EVERY_ROW] },
  ]);
  assertEquals(stepsOf(emptyAll()), [{ kind: "emptyHere" }]);
});
