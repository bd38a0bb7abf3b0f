import { assertEquals, assertThrows } from "@std/assert";
import { MissingToolError, needNow } from "./needs.ts";
import { reportNeeds } from "./needs_report.ts";

const RECORDS = `memcached there
chromium missing
chromium missing
a tool of two words missing
`;

Deno.test("the report names each missing tool with its tests, and the tests without one", () => {
  const known = { "chromium": 2, "a tool of two words": 1 };
  assertEquals(reportNeeds(RECORDS, 5, known, 2), {
    line: "ignored: 1 without a tool of two words, 2 without chromium, 2 for no tool",
    complaints: [],
  });
  assertEquals(reportNeeds("", 0, known, 0).line, "ignored: 0 for no tool");
});

Deno.test("the report complains of more tests than are known for a tool, and for none", () => {
  assertEquals(reportNeeds(RECORDS, 5, { "chromium": 1 }, 1).complaints, [
    "2 tests are ignored without chromium; known are 1",
    "1 test is ignored without a tool of two words; known are 0",
    "2 tests are ignored for no tool; known are 1",
  ]);
});

Deno.test("a test that runs ends when a tool is missing", () => {
  needNow("openssl", true);
  assertThrows(
    () => needNow("openssl", false),
    MissingToolError,
    "this test needs openssl, which this machine lacks",
  );
});
