import { assertEquals } from "@std/assert";
import type { Source } from "../support/sources.ts";
import { Reach } from "./reach.ts";

Deno.test("Reach: tests that import a file and do not run the line do not push out one that does", async () => {
  const imports = ["lib/room/part.ts"];
  const strangers = Array.from({ length: 60 }, (_, index) => `tests/lib/room/x${index}_test.ts`);
  const far = "tests/other/far_test.ts";
  const sources: Source[] = [...strangers, far].map((path) => ({ path, text: "", imports }));
  const reach = new Reach({
    run: () => Promise.reject(new Error("no test is run to find those that reach a line")),
    measure: (path) =>
      Promise.resolve({
        ...{ path, durationSec: 1 },
        lines: new Map([["lib/room/part.ts", new Set(path === far ? [7] : [1])]]),
      }),
  }, [...sources, { path: "lib/room/part.ts", text: "", imports: [] }]);
  const found: string[] = [];
  for await (const { path } of reach.testsFor("lib/room/part.ts", 7)) found.push(path);
  // The nearest ones are run unmeasured.
  assertEquals(found, [...strangers.slice(0, 4), far]);
});

Deno.test("Reach: tests that import a file come before those that start a server", async () => {
  const none = { text: "", imports: [] };
  const server = "tests/support/servers/server_process.ts";
  const near = "tests/other/part_test.ts";
  const neighbours = [1, 2].map((index) => `tests/lib/room/server${index}_test.ts`);
  const reach = new Reach({
    run: () => Promise.resolve({ kind: "passed" }),
    measure: (path) => Promise.resolve({ path, durationSec: 1, lines: null }),
  }, [
    ...neighbours.map((path) => ({ path, text: "", imports: [server] })),
    { path: near, text: "", imports: ["lib/room/part.ts"] },
    { path: server, ...none },
    { path: "main.ts", text: "", imports: ["lib/room/part.ts"] },
    { path: "lib/room/part.ts", ...none },
  ]);
  const found: string[] = [];
  for await (const { path } of reach.testsFor("lib/room/part.ts", 7)) found.push(path);
  assertEquals(found, [near, ...neighbours]);
});
