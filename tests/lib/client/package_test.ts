import { needs } from "../../support/needs/needs.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { isInstalled } from "../../support/servers/peers.ts";
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { Certificates } from "../../support/servers/certificates.ts";
import { startLeased, startSecured } from "./servers.ts";

// The package as users get it, in a bare project.

const CONSUMER = `
import { Cache } from "@leased/client";
import { LockedError, jsonCodec, type LoadOptions } from "@leased/client";
import { bentoDriver } from "@leased/client/bentocache";
import { KeyvStore } from "@leased/client/keyv";
const options: LoadOptions = { ttlSec: 60 };
const cache = new Cache<string>("127.0.0.1", { codec: jsonCodec });
const value: Promise<string | undefined> = cache.getOrLoad("k", (key) => key, options);
// @ts-expect-error A load of another type.
cache.getOrLoad("k", () => 5);
console.log(value, LockedError, bentoDriver, KeyvStore);
`;

/** The results of a client with and without a certificate, an authority, and a password gets. */
const TLS_RESULTS = `right: value
no certificate: ConnectionError
unknown authority: ConnectionError
no TLS: ConnectionError
wrong password: ConnectionError
server names: true,false
`;

/** The result of each flow, once. */
const FLOWS_RESULTS = `herd: 1 1
put with tokens: bbb
unknown: OutcomeUnknownError false told
tags: ccc
many: m1 1 m2 1
namespace: 2
lock: true 5
cas: 6 2
abort: AbortError
`;

/** CommonJS. */
const REQUIRE = `const { Cache } = require("@leased/client");
const { KeyvStore } = require("@leased/client/keyv");
const { bentoDriver } = require("@leased/client/bentocache");
console.log(typeof Cache, typeof KeyvStore, typeof bentoDriver);
`;

/** Of the program in the package's README. */
const README_RESULTS = "{ title: 'first title' }\n{ title: 'second title' }\n";

/** What is left in each step, in Node and in Deno. */
const NAMESPACES_RESULTS = `Map(1) { "terms" => "two" }
Map(0) {} dark
Anna undefined
`;

/** The errors of servers that misbehave, and of wrong arguments. */
const HOSTILE_RESULTS = `garbage: ConnectionError ProtocolError
no opaque: ConnectionError ProtocolError
no CR: ConnectionError ProtocolError
half a reply: ConnectionError ProtocolError
a value of 2 GiB: ConnectionError ProtocolError
bytes nobody asked for: ProtocolError ProtocolError
an end: ConnectionError ConnectionError
a reset: ConnectionError ConnectionError
nothing: TimeoutError TimeoutError
waits: ConnectionError UnfinishedError, timers: 0
get: TypeError: key 5: expected a text
set: TypeError: JSON cannot hold undefined
append: TypeError: value "text": expected a Uint8Array
cas: TypeError: cas undefined: expected a text
touch: RangeError: ttlSec NaN: expected a whole number from 0 to 2147483647
setMany: RangeError: key "": it is empty
deleteMany: RangeError: key "a b": blanks and control characters are not allowed
getMany: TypeError: keys "text": expected an iterable, as an array
lock: RangeError: waitMs -1: expected a whole number from 0 to 3600000
releaseToken: RangeError: token "1\\r\\nflush_all": expected a decimal number from 1 to 18446744073709551615
getOrLoad: TypeError: load 5: expected a function
put: RangeError: key "\\ud800": half a surrogate pair is not allowed
`;

const RENAMED_RESULTS = `\
a connection to 127.0.0.1
by name
a connection to 127.0.0.2
by name
`;

/** Programs that run as those of users do. */
const PROGRAMS = [
  "examples/client.mjs",
  "examples/namespaces.mjs",
  "tests/lib/client/tls_client.mjs",
  "tests/lib/client/flows_client.mjs",
  "tests/lib/client/hostile_client.mjs",
  "tests/lib/client/unref_client.mjs",
  "tests/lib/client/renamed_client.mjs",
];

async function run(
  cwd: string,
  program: string,
  args: readonly string[],
): Promise<string> {
  const env = { NO_COLOR: "1" };
  const command = new Deno.Command(program, {
    args: [...args],
    cwd,
    env,
    stdin: "null",
  });
  const { success, stdout, stderr } = await command.output();
  assertEquals(
    success,
    true,
    `${program} ${args.join(" ")}: ${textOf(stderr)}${textOf(stdout)}`,
  );
  return textOf(stdout) + textOf(stderr);
}

/** Every declaration that a declaration of the package imports is in the package: types need no other one. */
async function checkDeclarations(folder: string): Promise<void> {
  const files = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
  for (const name of files.filter((name) => name.endsWith(".d.ts"))) {
    const text = await Deno.readTextFile(`${folder}/${name}`);
    assert(!text.includes('from "node:') && !text.includes('import("node:'), name);
    for (const [, imported] of text.matchAll(/(?:from |import\()"(\..+?)\.js"/g)) {
      const { isFile } = await Deno.stat(`${folder}/${imported}.d.ts`);
      assert(isFile, `${name} imports ${imported}`);
    }
  }
}

Deno.test("the package and the server have one version", () => {
  const versions = ["deno.json", "contrib/client_package.json"].map((name) =>
    JSON.parse(Deno.readTextFileSync(path(name))).version
  );
  assertEquals(versions[1], versions[0]);
});

Deno.test({
  name: "the package works in a bare project of Node and of Deno, with TLS, and has types",
  ...needs("npm", isInstalled(["npm", "--version"])),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
    using certificates = new Certificates();
    try {
      const tarball = `${folder}/leased-client.tgz`;
      const pack = ["run", "--no-lock", "--allow-all", path("contrib/pack_client.ts"), tarball];
      const said = await run(path(""), Deno.execPath(), [...pack, "--check"]);
      assertEquals(said, `${tarball}\n`, "no warning");
      await Deno.writeTextFile(
        `${folder}/package.json`,
        `{ "type": "module" }`,
      );
      await run(folder, "npm", [
        "install",
        "--offline",
        "--no-audit",
        "./leased-client.tgz",
      ]);
      for (const program of PROGRAMS) {
        const text = await Deno.readTextFile(path(program));
        const asUser = text.replace(/"(?:\.\.\/)+lib\/client\/mod\.ts"/, '"@leased/client"');
        await Deno.writeTextFile(`${folder}/${program.split("/").at(-1)}`, asUser);
      }
      await Deno.writeTextFile(`${folder}/consumer.ts`, CONSUMER);
      await run(folder, Deno.execPath(), [
        "check",
        "--node-modules-dir=manual",
        "consumer.ts",
      ]);
      for (const part of ["", "adapters/", "flows/", "net/", "values/", "../flow/"]) {
        await checkDeclarations(`${folder}/node_modules/@leased/client/client/${part}`);
      }
      const home = `${folder}/node_modules/@leased/client`;
      const made = JSON.parse(await Deno.readTextFile(`${home}/package.json`));
      const { description, engines, license, version } = made;
      assert(description.length > 0 && engines.node === ">=20" && license === "MIT", version);
      assertEquals(
        await Deno.readTextFile(`${home}/LICENSE`),
        await Deno.readTextFile(path("LICENSE")),
      );
      await using server = await startLeased();
      const [, readme] = /```js\n(.*?)```/s.exec(await Deno.readTextFile(`${home}/README.md`))!;
      const program = readme!.replace("127.0.0.1:11211", `127.0.0.1:${server.port}`);
      await Deno.writeTextFile(`${folder}/readme.mjs`, program);
      await Deno.writeTextFile(`${folder}/require.cjs`, REQUIRE);
      assertEquals(await run(folder, "node", ["readme.mjs"]), README_RESULTS);
      assertEquals(await run(folder, "node", ["require.cjs"]), "function function function\n");
      const renamed = await run(folder, "node", ["renamed_client.mjs", `${server.port}`]);
      assertEquals(renamed, RENAMED_RESULTS);
      await using secured = await startSecured(certificates);
      const deno = ["run", "--node-modules-dir=manual", "-A"];
      for (const [program, args] of [["node", []], [Deno.execPath(), deno]] as const) {
        const output = await run(folder, program, [...args, "client.mjs", `${server.port}`]);
        assertStringIncludes(output, "first title");
        assertStringIncludes(output, "second title");
        assertStringIncludes(output, "loads: 2");
        const spaces = await run(folder, program, [...args, "namespaces.mjs", `${server.port}`]);
        assertEquals(spaces.replaceAll("'", '"'), NAMESPACES_RESULTS);
        const flows = await run(folder, program, [...args, "flows_client.mjs", `${server.port}`]);
        assertEquals(flows, FLOWS_RESULTS);
        assertEquals(await run(folder, program, [...args, "hostile_client.mjs"]), HOSTILE_RESULTS);
        const unref = await run(folder, program, [...args, "unref_client.mjs", `${server.port}`]);
        assertStringIncludes(unref, "loaded");
        {
          using client = await server.connect();
          await client.ask("flush_all\r\n", "OK\r\n");
        }
        const { certPath, keyPath, port } = secured;
        const tls = [...args, "tls_client.mjs", `${port}`, certPath, keyPath];
        assertEquals(await run(folder, program, tls), TLS_RESULTS);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
