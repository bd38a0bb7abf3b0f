import { assertEquals, assertRejects } from "@std/assert";
import { type Flow, runFlow, stepOf } from "../../../lib/flow/flow.ts";

type Step = { readonly kind: "add"; readonly number: number } | { readonly kind: "fail" };
interface Results {
  readonly add: number;
  readonly fail: void;
}
const step = stepOf<Step, Results>();

function* addTwice(number: number): Flow<Step, number> {
  return (yield* step({ kind: "add", number })) + (yield* step({ kind: "add", number }));
}

function* flow(): Flow<Step, string> {
  try {
    yield* step({ kind: "fail" });
  } catch (error) {
    return `${(error as Error).message} ${yield* addTwice(5)}`;
  }
  return "";
}

Deno.test("a flow gets results and errors of its steps, and runs another one", async () => {
  const taken: string[] = [];
  const take = (step: Step): unknown => {
    taken.push(step.kind);
    if (step.kind === "fail") return Promise.reject(new Error("refused"));
    return taken.length === 2 ? step.number : Promise.resolve(step.number + 1);
  };
  assertEquals(await runFlow(flow(), take), "refused 11");
  assertEquals(taken, ["fail", "add", "add"]);
});

Deno.test("results that are no promises are handed on in the same turn", () => {
  let taken = 0;
  void runFlow(addTwice(1), () => ++taken);
  assertEquals(taken, 2);
});

Deno.test("an error that a flow does not catch ends its run", async () => {
  const take = (): never => {
    throw new Error("refused");
  };
  await assertRejects(() => runFlow(addTwice(1), take), Error, "refused");
});
