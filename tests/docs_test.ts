import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { commandsOf, DocumentShell, startsServer } from "./support/docs/commands.ts";
import {
  anchorsOf,
  type Document,
  inlineCodeOf,
  isInternal,
  linksOf,
  readDocument,
  readDocuments,
} from "./support/docs/markdown.ts";
import { freshOptions, OPTION_PAGES, readOptions } from "./support/docs/option_table.ts";
import { isTranscript, sessionOf } from "./support/docs/transcripts.ts";
import { path } from "./support/servers/server_process.ts";
import { readSources } from "./support/sources.ts";
import { play } from "./support/sessions/play.ts";
import { SocketSide } from "./support/sessions/socket_side.ts";

const README_LINES_MAX = 150;
const FIRST_SCREEN_LINES = 20;
const TASKS: Record<string, { description?: string }> =
  JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks;

/** Commands that no test can run, by their beginning, and why. Their files, tasks and options are looked at. */
const NOT_RUN: readonly (readonly [start: string, reason: string])[] = [
  ["sudo ", "changes the machine; tests/contrib_test.ts verifies and starts the unit"],
  ["npx -y deno@2.9.6 task test", "would run this test again"],
  ["deno task ok", "would run this test again"],
  [
    "deno task compile",
    "fetches the runtime's binary; tests/compile_test.ts builds without it",
  ],
  ["deno task bundle", "takes the place of ./leased; tests/bundle_test.ts makes one elsewhere"],
  ["buildah build", "needs a base image; tests/bundle_test.ts builds on one that it makes"],
  ["DENORT_BIN=", "takes the place of ./leased; tests/compile_test.ts does the same elsewhere"],
  ["deno task bench ", "takes minutes, and other servers to compare with"],
  ["deno task explore", "takes minutes; tests/explorer runs smaller ones"],
  ["deno task kills", "takes minutes; tests/kills kills fewer servers"],
  ["deno task simulate", "takes minutes; tests/simulator runs a few seeds"],
  ["deno task patroni", "takes minutes, and needs Patroni, etcd and root"],
  ["deno task mutate", "takes an hour; .ci/run tries a few mutants"],
  ["deno task rows init", "documented with a database that is not there"],
  [
    "deno task rows --db sqlite:shop.db",
    "follows a file that only a reader makes; tests/lib/databases/views/views_test.ts has one",
  ],
  [
    "sqlite3 ",
    "has SQLite's shell; tests/readme_test.ts plays README's example",
  ],
  ["printf 'get product:1", "as sqlite3"],
  ["psql ", "needs a database; tests/lib/databases/views/views_test.ts has one"],
  ["deno task views", "needs a database; tests/lib/databases/views/check_test.ts has one"],
  ["PGPASSWORD=", "needs a database; tests/lib/databases/postgres_test.ts has one"],
  [".ci/newer_peers", "fetches packages; .ci/run runs it"],
];

const documents = readDocuments();

for (const document of documents) {
  Deno.test(`${document.name}: commands and transcripts go as written`, async () => {
    await using shell = new DocumentShell();
    await using sides = new AsyncDisposableStack();
    let side: SocketSide | undefined;
    for (const block of document.blocks) {
      try {
        if (isTranscript(block)) {
          const [start] = commandsOf(block);
          if (start !== undefined || side === undefined) {
            if (start !== undefined) await shell.startServer(start.text);
            const address = { hostname: "127.0.0.1", port: shell.port };
            side = sides.use(new SocketSide("leased", address, () => Promise.resolve()));
          }
          // Or the session could meet a lock of the one before, whose end the server has not noticed yet.
          await side.settle();
          await play(side, sessionOf(block));
        } else if (block.language === "sh" || block.language === "console") {
          for (const command of commandsOf(block)) {
            if (reasonNotToRun(command.text) === undefined) await shell.run(command);
            else await lookAt(command.text);
          }
        }
      } catch (error) {
        throw new Error(`${document.name}:${block.line}: ${(error as Error).message}`, {
          cause: error,
        });
      }
    }
    await shell.stopServer();
  });
}

function reasonNotToRun(command: string): string | undefined {
  return NOT_RUN.find(([start]) => command.startsWith(start))?.[1];
}

/** The help of each bench. */
const helps = new Map<string, Promise<string>>();

async function helpOf(bench: string): Promise<string> {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", "bench", bench, "--help"],
    cwd: path(""),
    env: { NO_COLOR: "1" },
    stdout: "null",
  }).output();
  const help = new TextDecoder().decode(stderr);
  assertEquals(code, 0, help);
  return help;
}

/** Checks a command without running it: its files and tasks exist, a bench knows its options. */
async function lookAt(command: string): Promise<void> {
  const files = command.matchAll(/(?<=^|\s)((?:\.ci|contrib|docs|examples|tests)\/[\w./]+)/g);
  for (const [file] of files) assert(Deno.statSync(path(file)), file);
  const [, bench] = /^deno task bench ([\w-]+)/.exec(command) ?? [];
  if (bench === undefined) return;
  let reading = helps.get(bench);
  if (reading === undefined) helps.set(bench, reading = helpOf(bench));
  const help = await reading;
  const [, ...words] = command.slice("deno task bench ".length).match(/"[^"]*"|\S+/g)!;
  for (const word of words.map((each) => each.replaceAll('"', ""))) {
    const isName = bench === "feed" || word.startsWith("--");
    assert(!isName || help.includes(word), `${command}: ${word}`);
  }
}

Deno.test("the list of commands that are not run names only what the documents have", () => {
  const commands = documents.flatMap(({ blocks }) => blocks.flatMap(commandsOf));
  const unused = NOT_RUN.filter(([start]) => !commands.some(({ text }) => text.startsWith(start)));
  assertEquals(unused.map(([start]) => start), []);
  for (const { text } of commands) {
    assert(!startsServer(text) || reasonNotToRun(text) === undefined, text);
  }
});

Deno.test("every block is run, or is part of a file", () => {
  const excerpted = ["examples", "contrib"].flatMap((folder) =>
    [...Deno.readDirSync(path(folder))].filter(({ isFile }) => isFile).map(({ name }) =>
      Deno.readTextFileSync(path(`${folder}/${name}`))
    )
  );
  const files = [...excerpted, ...readSources().map(({ text }) => text)].map(trimmedLines);
  for (const { name, blocks } of documents) {
    for (const block of blocks) {
      const { language, lines, line } = block;
      if (["sh", "console"].includes(language) || isTranscript(block)) continue;
      // The drawing of the rooms: architecture_test compares it with the folders.
      if (name === "docs/architecture.md" && language === "text") continue;
      const wanted = trimmedLines(lines.join("\n"));
      const isExcerpt = files.some((file) => wanted.isSubsetOf(file));
      assert(isExcerpt, `${name}:${line}: nothing checks this block`);
    }
  }
});

/** The lines of a text that say something, without their indentation. */
function trimmedLines(text: string): Set<string> {
  return new Set(text.split("\n").map((line) => line.trim()).filter((line) => line !== ""));
}

Deno.test("links lead to files and headings that exist", () => {
  const dead: string[] = [];
  for (const document of documents) {
    for (const target of linksOf(document)) {
      if (/^https?:/.test(target)) continue;
      const [file, anchor] = target.split("#") as [string, string?];
      const found = file === "" ? document : linked(document, file);
      const isThere = found !== undefined && (anchor === undefined || anchorsOf(found).has(anchor));
      if (!isThere) dead.push(`${document.name}: ${target}`);
    }
  }
  assertEquals(dead, []);
});

/** The file that a link leads to; undefined when there is none. */
function linked(from: Document, file: string): Document | undefined {
  const { pathname } = new URL(file, `file:///${from.name}`);
  const name = pathname.slice(1);
  try {
    return name.endsWith(".md")
      ? readDocument(name)
      : { name, text: "", blocks: [], prose: String(Deno.statSync(path(name)).isFile) };
  } catch {
    return undefined;
  }
}

Deno.test("README leads to every page of docs, the tour to those of docs/internals; README has at most 150 lines", () => {
  const readme = documents.find(({ name }) => name === "README.md")!;
  const tour = documents.find(({ name }) => name === "docs/architecture.md")!;
  const leads = [
    ...linksOf(readme),
    ...linksOf(tour).filter((link) => link.startsWith("internals/")).map((link) => `docs/${link}`),
  ];
  const pages = documents.map(({ name }) => name).filter((name) => name.startsWith("docs/"));
  assertEquals(pages.filter((page) => !leads.includes(page)), []);
  assertLessOrEqual(readme.text.trimEnd().split("\n").length, README_LINES_MAX);
});

Deno.test("a page of docs begins with a summary and a command or session, and ends with its limits", () => {
  for (const document of documents) {
    const { name, text, blocks, prose } = document;
    if (!name.startsWith("docs/") || name === "docs/architecture.md") continue;
    const [title, summary] = text.split("\n\n");
    assert(/^# [A-Z].*$/.test(title!), name);
    assertEquals(summary!.match(/\.(?=\s|$)/g)?.length, 2, `${name}: ${summary}`);
    if (!isInternal(document)) assertLessOrEqual(blocks[0]!.line, FIRST_SCREEN_LINES, name);
    assertEquals([...prose.matchAll(/^## (.*)$/gm)].at(-1)?.[1], "Limits", name);
  }
});

Deno.test("documents name tasks and files that exist", () => {
  for (const { name, text } of documents) {
    for (const [, task] of text.matchAll(/(?:deno|deno@[\d.]+) task ([\w:]+)/g)) {
      assert(task! in TASKS, `${name}: ${task}`);
    }
  }
  for (const document of documents) {
    for (const code of inlineCodeOf(document)) {
      if (!/^(?:contrib|docs|examples|lib|protocol|store|tests|\.ci)\/[\w./]*$/.test(code)) {
        continue;
      }
      assert(Deno.statSync(path(code)), `${document.name}: ${code}`);
    }
  }
});

Deno.test("tasks that running text names know the options named with them", async () => {
  for (const document of documents) {
    for (const code of inlineCodeOf(document)) {
      if (code.startsWith("deno task bench ")) await lookAt(code);
    }
  }
});

Deno.test("documents name the version of deno that runs the tests", () => {
  for (const { name, text } of documents) {
    for (const [, version] of text.matchAll(/deno@([\d.]+\d)/g)) {
      assertEquals(version, Deno.version.deno, name);
    }
  }
});

for (const page of OPTION_PAGES) {
  Deno.test(`${page.name} has the program's options`, () => {
    const text = readOptions(page);
    assertEquals(freshOptions(text, page), text, "deno task docs writes it anew");
  });
}

Deno.test("no sentence of a document starts with What, Who or That", () => {
  for (const { name, prose } of documents) {
    if (name === "CHANGELOG.md") continue;
    const found = /(?:^|[.:!?]\s+|\n\n)(?:[-*] )?(?:What|Who|That) [^?\n]*\n/.exec(prose);
    assertEquals(found?.[0], undefined, name);
  }
});

Deno.test("no cell of a table is a placeholder", () => {
  for (const { name, prose } of documents) {
    const found = /^\|.*\| *(?:[XYZ]|\?+|…) *\|.*$/m.exec(prose);
    assertEquals(found?.[0], undefined, name);
  }
});

Deno.test("every task says what it is for", () => {
  for (const [name, { description }] of Object.entries(TASKS)) assert(description, name);
});
