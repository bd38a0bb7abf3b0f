import { assertEquals, assertThrows } from "@std/assert";
import { judge, violationText } from "./judge.ts";
import type { Operation, Outcome } from "./operation.ts";
import { HistoryError } from "./read_history.ts";
import { HISTORIES } from "./written_histories.ts";

/** Parses `client operation value start..end [version] [outcome]`. */
function operationOf(line: string): Operation {
  const [client, operation, value, times, ...more] = line.split(/ +/);
  const [start, end] = times!.split("..");
  const version = more.find((word) => /^\d+$/.test(word));
  return {
    ...{ client: client!, operation: operation!, key: "k" },
    value: value === "absent" ? null : value!,
    version: version === undefined ? null : Number(version),
    start: Number(start),
    end: end === "" ? null : Number(end),
    outcome: (more.find((word) => word !== version) ?? "ok") as Outcome,
  };
}

function linesOf(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

for (const [name, history, found] of HISTORIES) {
  Deno.test(`judged: ${name}`, () => {
    const [reason, ...shown] = linesOf(found);
    const expected = reason === undefined
      ? []
      : [{ key: "k", reason, operations: shown.map(operationOf) }];
    const operations = linesOf(history).map(operationOf);
    assertEquals(judge(operations).violations, expected);
    assertEquals(judge(operations.toReversed()).violations.length, expected.length);
  });
}

const write = operationOf("A set a 0..1 1");

Deno.test("each key is judged alone, and counted", () => {
  const stale = [write, operationOf("A set b 2..3"), operationOf("B get a 4..5")];
  const operations = [
    ...stale.map((each) => ({ ...each, key: "one" })),
    ...stale.slice(0, 2).map((each) => ({ ...each, key: "two" })),
    operationOf("B get x 0.. unknown"),
  ];
  const { violations, ...counts } = judge(operations);
  assertEquals(violations.map(({ key }) => key), ["one"]);
  assertEquals(counts, { keys: 3, operations: 6, unclear: 0, leftOut: 1 });
});

Deno.test("a history with a value that is written twice cannot be judged", () => {
  for (const outcome of ["ok", "failed", "unknown"] as const) {
    const again = { ...write, start: 7, end: 8, version: null, outcome };
    const message =
      'key "k": "a" is written twice, at 0 and at 7: every write needs a value of its own';
    assertThrows(() => judge([write, again]), HistoryError, message);
  }
  const other = { ...write, key: "other" };
  assertEquals(judge([write, other]).violations, []);
});

Deno.test("a violation is shown as text that cannot command a terminal", () => {
  const read = { ...operationOf("B get x 2..3 4"), value: "\x1b[2J\u202e", key: "\n" };
  assertEquals(
    judge([read]).violations.map(violationText),
    [
      String.raw`key "\n": nobody has written what was read` + "\n" +
      String.raw`  [2..3] "B" get "\u001b[2J\u202e", version 4`,
    ],
  );
});
