import { assert, assertEquals } from "@std/assert";
import { path } from "../support/servers/server_process.ts";
import { plant } from "./fault.ts";
import { LIB_FAULTS } from "./lib_faults.ts";
import { PROTOCOL_FAULTS } from "./protocol_faults.ts";
import { STORE_FAULTS } from "./store_faults.ts";

const FAULTS = [...STORE_FAULTS, ...PROTOCOL_FAULTS, ...LIB_FAULTS];

Deno.test("every fault of deno task mutants can be planted, and names tests that exist", () => {
  assert(FAULTS.length >= 60);
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
