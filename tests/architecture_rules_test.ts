import { assertEquals } from "@std/assert";
import {
  crowdedFolders,
  importCycles,
  importsPastDoors,
  type Room,
  unusedDoors,
  upwardImports,
} from "./support/architecture.ts";
import { readSources, type Source } from "./support/sources.ts";

// The checks of tidy_test, applied to sources that break them.

const ROOMS: readonly Room[] = [
  ["low/inner/", "open"],
  ["low/", "door base/*"],
  ["high/", "door"],
];

const SOURCES: readonly Source[] = [
  source("low/inner/open.ts"),
  source("low/inner/hidden.ts", "low/inner/open.ts"),
  source("low/base/bytes.ts"),
  source("low/door.ts", "low/inner/open.ts", "low/base/bytes.ts"),
  source("high/door.ts", "low/door.ts", "low/base/bytes.ts"),
];

function source(path: string, ...imports: string[]): Source {
  return { path, text: "", imports };
}

function planted(path: string, ...imports: string[]): readonly Source[] {
  return [...SOURCES, source(path, ...imports)];
}

Deno.test("sources that keep all rules break none", () => {
  assertEquals(importCycles(SOURCES), []);
  assertEquals(upwardImports(SOURCES, ROOMS), []);
  assertEquals(importsPastDoors(SOURCES, ROOMS), []);
  assertEquals(crowdedFolders(SOURCES, 2), []);
});

Deno.test("a planted cycle is found, with the files that are in it and no others", () => {
  const sources = [
    ...planted("low/a.ts", "low/b.ts"),
    source("low/b.ts", "low/c.ts", "low/door.ts"),
    source("low/c.ts", "low/a.ts"),
  ];
  assertEquals(importCycles(sources), [["low/a.ts", "low/b.ts", "low/c.ts"]]);
});

Deno.test("a type import closes a cycle", () => {
  const readImports = readSources().find(({ path }) => path === "store/cache.ts")!;
  assertEquals(readImports.text.includes("import type {"), true);
  for (const [, imported] of readImports.text.matchAll(/import type [^"]+"\.\/([^"]+)"/g)) {
    assertEquals(readImports.imports.includes(`store/${imported}`), true, imported);
  }
});

Deno.test("a planted upward import is found", () => {
  assertEquals(upwardImports(planted("low/new.ts", "high/door.ts"), ROOMS), [
    "low/new.ts imports high/door.ts",
  ]);
  assertEquals(upwardImports(planted("low/inner/new.ts", "low/door.ts"), ROOMS), [
    "low/inner/new.ts imports low/door.ts",
  ]);
});

Deno.test("an import of a file in no room is found", () => {
  assertEquals(upwardImports(planted("low/new.ts", "elsewhere.ts"), ROOMS), [
    "low/new.ts imports elsewhere.ts",
  ]);
});

Deno.test("a planted import past a door is found, from another room and from the next one", () => {
  assertEquals(importsPastDoors(planted("high/new.ts", "low/inner/open.ts"), ROOMS), [
    "high/new.ts imports low/inner/open.ts",
  ]);
  assertEquals(importsPastDoors(planted("low/new.ts", "low/inner/hidden.ts"), ROOMS), [
    "low/new.ts imports low/inner/hidden.ts",
  ]);
});

Deno.test("an unused door is found", () => {
  assertEquals(unusedDoors(SOURCES, ROOMS), ["high/door"]);
});

Deno.test("a crowded folder is found", () => {
  assertEquals(crowdedFolders(planted("low/inner/third.ts"), 2), ["low/inner/ has 3 files"]);
});
