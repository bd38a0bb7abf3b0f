import { assertEquals } from "@std/assert";
import { RowsSide } from "../support/sessions/rows_side.ts";

Deno.test("writes of rows are sampled once each, when they are answered; commands are not", () => {
  using side = new RowsSide(["--row-expiry", "column"]);
  const peer = side.connect();
  const { hotKeys } = side.thread.memory;
  const sampled = (request: string): [string, number, number][] => {
    hotKeys.reset();
    // Every request is sampled.
    Object.defineProperty(hotKeys, "left", { get: () => 1, set: () => {}, configurable: true });
    peer.ask(request);
    return hotKeys.read().keys.map(({ key, writes, misses }) => [key, writes, misses]);
  };
  const cases: [string, [string, number, number][]][] = [
    ["set a 0 0 1\r\n1\r\n", [["a", 1, 0]]],
    ["add b 0 0 1\r\n1\r\n", [["b", 1, 0]]],
    ["incr a 1\r\n", [["a", 1, 0]]],
    ["touch a 100\r\n", [["a", 1, 0]]],
    ["ms a 1\r\n2\r\n", [["a", 1, 0]]],
    ["delete a\r\n", [["a", 1, 0]]],
    ["get c\r\n", [["c", 0, 1]]],
    ["token get a\r\n", []],
  ];
  for (const [request, expected] of cases) assertEquals(sampled(request), expected, request);
});
