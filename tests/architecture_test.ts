import { assert, assertEquals } from "@std/assert";
import { isInternal, readDocument, readDocuments } from "./support/docs/markdown.ts";
import { readSources } from "./support/sources.ts";

// docs/architecture.md and docs/internals/ name files, folders and functions: they exist.

const ROOT = new URL("../", import.meta.url);
const tour = readDocument("docs/architecture.md").text;
const page = [tour, ...readDocuments().filter(isInternal).map(({ text }) => text)].join("\n");
const texts = new Map(readSources().map(({ path, text }) => [path, text]));

/** Matches the text between backticks on one line. */
function quoted(text: string): string[] {
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(new URL(path, ROOT)).isDirectory === path.endsWith("/");
  } catch {
    return false;
  }
}

/** Whether a file declares a function, a method or a class of this name. */
function declares(path: string, name: string): boolean {
  const declaration = new RegExp(
    `^(?:export )?(?:async )?(?:function\\*? |class )${name}\\b|` +
      `^  (?:async |static )*\\*?${name}[<(](?!.*;$)`,
    "m",
  );
  return declaration.test(texts.get(path) ?? "");
}

Deno.test("a call is no declaration", () => {
  assert(declares("store/cache.ts", "get"));
  assert(declares("store/cache.ts", "Cache"));
  assert(declares("lib/net/native/thread.ts", "#converse"));
  assert(!declares("store/cache.ts", "forRead"));
  assert(!declares("store/cache.ts", "wakeAll"));
});

Deno.test("every file and folder that docs/architecture.md and docs/internals name exists", () => {
  const paths = quoted(page).filter((code) => /^[a-z_/]+(?:\/|\.ts)$/.test(code));
  assert(paths.length > 50, "the page names files");
  assertEquals(paths.filter((path) => !exists(path)), []);
});

Deno.test("the drawing of docs/architecture.md has every folder of the server", () => {
  const drawing = /```text\n([\s\S]*?)```/.exec(tour)![1]!;
  const folders: string[] = [];
  const drawn = drawing.split("\n").flatMap((line) => {
    const [, indent, name, subject] = /^( *)(\S+\/)( .*)?$/.exec(line) ?? [];
    if (name === undefined) return [];
    folders.length = indent!.length / 2;
    folders.push(name);
    // A folder of folders has no subject of its own.
    return subject === undefined ? [] : [folders.join("")];
  });
  const real = [...texts.keys()].filter((path) => /^(?:lib|protocol|store)\//.test(path))
    .map((path) => path.slice(0, path.lastIndexOf("/") + 1));
  assertEquals(drawn.toSorted(), [...new Set(real)].toSorted());
});

Deno.test("every function in a table of docs/architecture.md and docs/internals is in its file", () => {
  const steps = page.split("\n").flatMap((line) => {
    const [, path, name] = /^\| `([^`]+\.ts)` +\| `([^`]+)` +\|/.exec(line) ?? [];
    return path === undefined ? [] : [{ path, name: name! }];
  });
  assert(steps.length > 20, "the page has trips");
  assertEquals(steps.filter(({ path, name }) => !declares(path, name)), []);
});

Deno.test("every name that docs/architecture.md and docs/internals put behind a file is in it", () => {
  const named = [...page.matchAll(/`([a-z_/]+\.ts)`\s+\(([^)]*)\)/g)];
  assert(named.length > 0);
  const missing = named.flatMap(([, path, names]) =>
    quoted(names!).filter((name) => !declares(path!, name)).map((name) => `${path} ${name}`)
  );
  assertEquals(missing, []);
});
