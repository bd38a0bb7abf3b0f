import { assertEquals } from "@std/assert";
import { createDatabase } from "../../support/servers/databases.ts";
import { isInstalled, newerPeers } from "../../support/servers/peers.ts";
import { startProxy } from "../../support/servers/proxy_process.ts";
import { path, ServerProcess } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";

// Clients that others wrote write and read rows through the proxy. One that is not installed is left out by name.

const PYTHON = "/usr/bin/python3";

/** Where Debian's libspymemcached-java and golang-github-bradfitz-gomemcache-dev are. */
const SPYMEMCACHED = "/usr/share/java/spymemcached.jar";
const GO_FOLDER = "/usr/share/gocode";

interface RowClient {
  readonly name: string;
  /** Ends with status 0 where the client is installed. */
  readonly probe: readonly string[];
  /** Port and prefix follow. */
  readonly command: readonly string[];
}

function python(library: string, module: string): RowClient {
  return {
    name: library,
    probe: [PYTHON, "-c", `import ${module}`],
    command: [PYTHON, path("tests/clients/rows.py"), library],
  };
}

function dalli(name: string, protocol: string, include: readonly string[]): RowClient {
  return {
    name,
    probe: ["ruby", ...include, "-e", 'require "dalli"'],
    command: ["ruby", ...include, path("tests/clients/rows.rb"), protocol],
  };
}

const CLIENTS: readonly RowClient[] = [
  python("pymemcache", "pymemcache"),
  python("pylibmc-text", "pylibmc"),
  python("pylibmc-binary", "pylibmc"),
  dalli("dalli-binary", "binary", []),
  ...newerPeers(".", /^dalli-/).map((folder) =>
    dalli(folder.replace(/.*dalli/, "dalli"), "meta", ["-I", folder])
  ),
  {
    name: "memjs",
    probe: [Deno.execPath(), "--version"],
    command: [
      ...[Deno.execPath(), "run", `--lock=${path("tests/deno.lock")}`, "--no-check"],
      ...["--allow-all", path("tests/clients/rows_memjs.ts")],
    ],
  },
  ...["text", "binary"].map((protocol): RowClient => ({
    name: `php-memcached-${protocol}`,
    probe: ["php", "-r", "exit(class_exists('Memcached') ? 0 : 1);"],
    command: ["php", path("tests/clients/rows.php"), protocol],
  })),
  ...["text", "binary"].map((protocol): RowClient => ({
    name: `spymemcached-${protocol}`,
    probe: ["sh", "-c", `command -v javac && test -f ${SPYMEMCACHED}`],
    command: ["java", "-cp", SPYMEMCACHED, path("tests/clients/Rows.java"), protocol],
  })),
  {
    name: "gomemcache",
    probe: ["sh", "-c", `command -v go && test -d ${GO_FOLDER}/src/github.com/bradfitz/gomemcache`],
    command: [
      ...["env", "GO111MODULE=off", `GOPATH=${GO_FOLDER}`, "GOCACHE=/tmp/leased-test-go"],
      ...["go", "run", path("tests/clients/rows.go")],
    ],
  },
];

for (const { name, probe, command } of CLIENTS) {
  Deno.test(
    `${name} writes and reads rows through the proxy`,
    { ignore: !isInstalled(probe) },
    async () => {
      await using database = await createDatabase("SQLite");
      await using cache = await ServerProcess.start();
      await using proxy = await startProxy(database, [cache.port]);
      const { code, stdout, stderr } = await new Deno.Command("timeout", {
        args: ["--signal=KILL", "60", ...command, `${proxy.port}`, "c:"],
        stdin: "null",
      }).output();
      assertEquals(code, 0, textOf(stdout) + textOf(stderr));
      using client = await proxy.connect();
      await client.send("gets c:a\r\n");
      assertEquals((await client.until("END\r\n")).split("\r\n")[1], "last");
    },
  );
}

Deno.test("examples/rows_pymemcache.py writes and reads a row", {
  ignore: !isInstalled([PYTHON, "-c", "import pymemcache"]),
}, async () => {
  await using database = await createDatabase("SQLite");
  await using proxy = await startProxy(database, []);
  const example = Deno.readTextFileSync(path("examples/rows_pymemcache.py"));
  const { code, stderr } = await new Deno.Command(PYTHON, {
    args: ["-c", example.replace("11311", `${proxy.port}`)],
  }).output();
  assertEquals(code, 0, textOf(stderr));
});
