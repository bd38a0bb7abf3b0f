import { newerPeers } from "../support/servers/peers.ts";
import { path } from "../support/servers/server_process.ts";

export const PYTHON = "/usr/bin/python3";

/** The folders of Debian's libspymemcached-java and golang-github-bradfitz-gomemcache-dev are. */
const SPYMEMCACHED = "/usr/share/java/spymemcached.jar";
const GO_FOLDER = "/usr/share/gocode";

/** A script that writes and reads rows, and ends with status 1 on a surprise. */
export interface RowClient {
  readonly name: string;
  /** Ends with status 0 where the client is installed. */
  readonly probe: readonly string[];
  /** Port, or two ports with a comma between, and a prefix follow. */
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

/** Clients that others wrote. */
export const ROW_CLIENTS: readonly RowClient[] = [
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
