import { assert, assertEquals } from "@std/assert";
import * as client from "../../../lib/client/mod.ts";
import * as bento from "../../../lib/client/adapters/bentocache.ts";
import * as express from "../../../lib/client/adapters/express_session.ts";
import * as keyv from "../../../lib/client/adapters/keyv.ts";
import * as unstorage from "../../../lib/client/adapters/unstorage.ts";
import { path, ServerProcess, TRANSPORTS } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";

// The examples in the docstrings of the client library's public names: each is there, has right types, and says the
// truth. `expression; // value` must have this value, `expression; // throws Name` must throw. The port 11211 stands
// for that of the test's server, `cache` is a Cache of it.

const FOLDER = path("lib/client");
const MODULES = {
  "mod.ts": client,
  "adapters/bentocache.ts": bento,
  "adapters/express_session.ts": express,
  "adapters/keyv.ts": keyv,
  "adapters/unstorage.ts": unstorage,
};
/** Classes whose methods are those of the host's interface. */
const HOSTS_INTERFACES = ["KeyvStore", "BentoDriver"];
const DOCSTRING =
  /^ *\/\*\*((?:[^*]|\*(?!\/))*)\*\/\n(?: *\/\/.*\n)* *(?:export |override |async )*(?:(class|const|function) )?(\w+)/gm;
const ASSERTED = /^(\s*)(.*); \/\/ (.*)$/;

/** Protected methods of the classes. */
const INTERNAL = ["call", "encode", "serverOf"];

/** A public name, as `Cache.put`. */
type Name = string;

function sourcesOf(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? sourcesOf(`${folder}/${name}`) : [Deno.readTextFileSync(`${folder}/${name}`)]
  );
}

/** Reads the examples of all docstrings. */
function readExamples(): Map<Name, string> {
  const examples = new Map<Name, string>();
  for (const text of sourcesOf(FOLDER)) {
    let owner = "";
    for (const [whole, docstring, kind, name] of text.matchAll(DOCSTRING)) {
      if (kind === "class") owner = `${name}.`;
      const isMember = whole.startsWith("  ");
      const code = /@example\n *\* ```ts\n([^]*?)\n *\* ```/.exec(docstring!)?.[1];
      if (code === undefined) continue;
      examples.set(`${isMember ? owner : ""}${name}`, code.replace(/^ *\* ?/gm, ""));
    }
  }
  return examples;
}

/** The names of values that the package exports, and the public methods of its classes. */
function publicNames(): Name[] {
  const values = Object.values(MODULES).flatMap((module) => Object.entries(module));
  return values.flatMap(([name, value]) => {
    if (typeof value !== "function" || HOSTS_INTERFACES.includes(name)) return [name];
    const methods = Object.getOwnPropertyNames(value.prototype ?? {});
    return [
      name,
      ...methods.filter((method) => !["constructor", ...INTERNAL].includes(method))
        .map((method) => `${name}.${method}`),
    ];
  });
}

/** Makes a line's assertion of its comment. */
function asserting(line: string): string {
  const [, indent, expression, expected] = ASSERTED.exec(line) ?? [];
  if (expected === undefined) return line;
  const thrown = /^throws (\w+)$/.exec(expected)?.[1];
  return thrown === undefined
    ? `${indent}assertEquals<unknown>(${expression}, ${expected});`
    : `${indent}await assertRejects(async () => void (${expression}), ${thrown});`;
}

/** Writes a module that runs the examples. */
function moduleOf(examples: ReadonlyMap<Name, string>, port: number): string {
  const imports = Object.entries(MODULES).map(([file, module]) =>
    `import { ${Object.keys(module).join(", ")} } from "file://${FOLDER}/${file}";`
  );
  const functions = [...examples].map(([name, code]) =>
    `await test(${JSON.stringify(name)}, async (cache) => {\n` +
    code.split("\n").map(asserting).join("\n").replaceAll(":11211", `:${port}`) + "\n});"
  );
  return [
    "// deno-lint-ignore-file",
    `import { assertEquals, assertRejects } from "@std/assert";`,
    `import { once } from "node:events";`,
    `import { type AddressInfo, createServer } from "node:net";`,
    `import { DatabaseSync } from "node:sqlite";`,
    ...imports,
    "async function test(name: string, run: (cache: Cache) => Promise<void>): Promise<void> {",
    `  const cache = new Cache("127.0.0.1:${port}", { replyMs: 20_000, connectMs: 20_000 });`,
    "  try { await run(cache); console.log(name); } catch (error) { console.error(name, error); }",
    "  await cache.close();",
    "}",
    ...functions,
    "Deno.exit();",
  ].join("\n");
}

Deno.test("the example of each public name of the client library goes as written", async () => {
  const examples = readExamples();
  assertEquals(publicNames().filter((name) => !examples.has(name)), [], "names without an example");
  const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
  try {
    await using server = await ServerProcess.start({
      io: TRANSPORTS.at(-1)!,
      args: [
        ...["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0"],
        ...["--db", `sqlite:${folder}/rows.db`, "--rows", "row:"],
      ],
      permissions: ["--allow-all"],
    });
    await Deno.writeTextFile(`${folder}/examples.ts`, moduleOf(examples, server.port));
    const { stdout, stderr, success } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--check", "--no-lock", `--config=${path("deno.json")}`, "-A"],
        `${folder}/examples.ts`,
      ],
      env: { NO_COLOR: "1" },
      stdin: "null",
    }).output();
    assert(success, textOf(stderr));
    assertEquals(textOf(stdout).trim().split("\n"), [...examples.keys()], textOf(stderr));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
