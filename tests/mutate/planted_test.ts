import { assertEquals } from "@std/assert";
import { path } from "../support/servers/server_process.ts";
import { plant } from "./fault.ts";
import { FAULTS } from "./planted.ts";

Deno.test("every fault of deno task mutate --planted can be planted, and names tests that exist", () => {
  const problems = FAULTS.flatMap((fault) => {
    try {
      plant(fault, Deno.readTextFileSync(path(fault.file)));
      for (const test of fault.tests.split(" ")) Deno.statSync(path(`tests/${test}_test.ts`));
      return [];
    } catch (error) {
      return [`${fault.fault}: ${(error as Error).message}`];
    }
  });
  assertEquals(problems, []);
});
