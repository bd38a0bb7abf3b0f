import { assertEquals, assertThrows } from "@std/assert";
import { residentByKind } from "./mappings.ts";

/** A mapping as smaps shows it. */
function mapping(range: string, permissions: string, name: string, residentKib: number): string {
  return `${range} ${permissions} 00000000 00:00 0 ${name}\nSize: 4 kB\nRss: ${residentKib} kB\nPss: 4 kB`;
}

const SMALL = [
  mapping("1a2b3c000000-1a2b3c040000", "rw-p", "", 1),
  mapping("559c2ae96000-559c2ca24000", "r-xp", "/usr/bin/deno", 2),
  mapping("559c4e131000-559c4e341000", "rw-p", "[heap]", 4),
  mapping("7f0000000000-7f0000100000", "rwxp", "", 8),
  mapping("7fff110cc000-7fff11136000", "rw-p", "[stack]", 16),
];
const STORE = [
  // The request for large pages divides the mapping.
  mapping("7e1000000000-7e1000100000", "rw-p", "", 32),
  mapping("7e1000100000-7e1004000000", "rw-p", "", 64),
  mapping("7e1004000000-7e1040000000", "rw-p", "", 128),
];

Deno.test("residentByKind finds the store, whole, and what else a process has", () => {
  const resident = residentByKind([...SMALL.slice(0, 3), ...STORE, ...SMALL.slice(3)].join("\n"));
  assertEquals(resident, { store: 224, heap: 1, code: 8, malloc: 4, files: 2, rest: 16 });
});

Deno.test("residentByKind does not take anything else for the store", () => {
  assertThrows(() => residentByKind(SMALL.join("\n")), Error, "Cannot find the store");
});
