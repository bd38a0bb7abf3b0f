import { assert, assertEquals } from "@std/assert";
import type { ServerOptions } from "../../../lib/cli/options.ts";
import { toNodeOptions, toRowsOptions } from "../../../lib/rows/row_arguments.ts";
import { refusedServer } from "../../../lib/server/permissions.ts";
import { sourcePath } from "../../../lib/process/permissions.ts";
import { serverOptions } from "../../support/command_line.ts";
import { loggedBy } from "../../support/log.ts";

/** Returns what a server writes when `deno run` grants nothing but these permissions. */
function refusal(
  transport: "portable" | "native",
  argv: readonly string[],
  grants: (descriptor: Deno.PermissionDescriptor) => boolean = () => false,
): { isRefused: boolean; lines: string[] } {
  const options: ServerOptions = serverOptions(...argv);
  const rows = options.origin.length > 0
    ? toNodeOptions(options, [])
    : options.db === ""
    ? null
    : toRowsOptions(options, []);
  const query = Deno.permissions.querySync;
  Deno.permissions.querySync = (descriptor) =>
    ({ state: grants(descriptor) ? "granted" : "prompt" }) as Deno.PermissionStatus;
  let isRefused = false;
  try {
    const lines = loggedBy("text", 0, () => {
      isRefused = refusedServer(options, rows, transport, argv);
    });
    return { isRefused, lines };
  } finally {
    Deno.permissions.querySync = query;
  }
}

/** The words of a refusal: purposes with their remedies. */
function needsOf(...given: Parameters<typeof refusal>): string[] {
  return refusal(...given).lines.flatMap((line) =>
    /^leased: not permitted to (.*)$/.exec(line)?.[1] ?? []
  );
}

const SOURCES = ["lib", "protocol", "store"].map(sourcePath).join(",");
const READ_SOURCES = `read ${sourcePath("")} (sources of its threads): add --allow-read=${SOURCES}`;
const FFI = "call the C library (--io native): add --allow-ffi, or use --io portable";

Deno.test("a plain server needs its sources, and FFI or the network", () => {
  assertEquals(needsOf("native", []), [READ_SOURCES, FFI]);
  assertEquals(
    needsOf("portable", ["-p", "5", "-l", "127.0.0.1,::1", "-U", "6", "--counter-port", "7"]),
    [
      READ_SOURCES,
      ...["127.0.0.1:5", "127.0.0.1:6", "[::1]:5", "[::1]:6", "127.0.0.1:7", "[::1]:7"].map((
        host,
      ) => `listen on ${host}: add --allow-net=${host}`),
    ],
  );
  assertEquals(
    needsOf("portable", ["-p", "-1"])[1],
    "listen on 127.0.0.1: add --allow-net=127.0.0.1",
  );
});

Deno.test("nothing is refused when everything is granted; what is optional is never asked for", () => {
  assertEquals(refusal("native", [], () => true), { isRefused: false, lines: [] });
  const withoutEnv = refusal("native", [], ({ name }) => name !== "env");
  assertEquals(withoutEnv, { isRefused: false, lines: [] });
});

Deno.test("each option with a file or a port needs its permission, and says how to do without", () => {
  const cases: readonly (readonly [argv: readonly string[], need: string])[] = [
    [["--admin", "9"], "listen on 127.0.0.1:9: add --allow-net=127.0.0.1:9"],
    [
      ["--state-dir", "/d"],
      "keep update tokens in /d (--state-dir): add --allow-read=/d --allow-write=/d, or leave " +
      "--state-dir out",
    ],
    [
      ["--snapshot", "/d/s"],
      "keep items in /d/s (--snapshot): add --allow-read=/d --allow-write=/d, or leave --snapshot out",
    ],
    [["-Y", "/u"], "read the user file /u (-Y): add --allow-read=/u"],
    [
      ["-P", "/p"],
      "write the pid file /p (-P): add --allow-read=/p,/p.tmp --allow-write=/p,/p.tmp, or leave -P " +
      "out (deno task start has no write permission)",
    ],
  ];
  for (const [argv, need] of cases) {
    assertEquals(needsOf("native", argv), [READ_SOURCES, FFI, need]);
  }
});

Deno.test("certificates are read by the portable transport, or for TLS of the admin port", () => {
  const tls = ["-Z", "-o", "ssl_chain_cert=/c"];
  const read = (path: string, alternative: string): string =>
    `read the certificate ${path} (-Z): add --allow-read=${path}, ${alternative}`;
  const native = "or use --io native with --allow-ffi: OpenSSL reads the files";
  const plain = "or serve the admin port without TLS: --admin notls:<port>";
  const certificates = (...given: Parameters<typeof refusal>): string[] =>
    needsOf(...given).filter((need) => need.includes("certificate"));
  assertEquals(certificates("native", tls), []);
  assertEquals(certificates("portable", tls), [read("/c", native)]);
  const key = [...tls, "-o", "ssl_key=/k"];
  assertEquals(certificates("portable", key), [read("/c", native), read("/k", native)]);
  const admin = ["-o", "ssl_ca_cert=/a", "--admin", "9"];
  assertEquals(certificates("native", [...tls, ...admin]), [read("/c", plain), read("/a", plain)]);
  assertEquals(certificates("native", [...tls, "--admin", "notls:9"]), []);
});

Deno.test("a Unix socket needs reading, writing and the network; a relative one the whole network", () => {
  const alternative =
    "or use --io native with --allow-ffi: it needs no file permission for a Unix socket";
  assertEquals(
    needsOf("portable", ["-s", "/r/s"])[1],
    `create the Unix socket /r/s (-s): add --allow-read=/r/s --allow-write=/r/s ` +
      `--allow-net=unix:/r/s, ${alternative}`,
  );
  assertEquals(
    needsOf("portable", ["-s", "s"])[1],
    `create the Unix socket s (-s): add --allow-read=s --allow-write=s --allow-net, ${alternative}`,
  );
  assertEquals(needsOf("native", ["-s", "/r/s"]), [READ_SOURCES, FFI]);
});

Deno.test("the command repeats the command line, quoted, and names what the portable transport costs", () => {
  const argv = ["-p", "5", "-D", "it's"];
  const { lines, isRefused } = refusal("portable", argv);
  assertEquals(isRefused, true);
  const command = lines.find((line) => line.includes("deno run"))!;
  assert(command.endsWith(`${sourcePath("main.ts")} -p 5 -D 'it'\\''s'`), command);
  assert(command.includes(` --allow-read=${SOURCES} --allow-net=127.0.0.1:5 `), command);
  assert(!command.includes("--lock="));
  const hasCost = (...given: Parameters<typeof refusal>): boolean =>
    refusal(...given).lines.some((line) => line.includes("a request takes a third"));
  assertEquals(hasCost("portable", argv), true);
  assertEquals(hasCost("portable", [...argv, "--io", "portable"]), false);
  assertEquals(hasCost("native", argv), false);
  // SQLite and nodes need no driver.
  for (const rows of [["--db", "sqlite:/r/x"], ["--origin", "127.0.0.1:1"]]) {
    const { lines } = refusal("native", rows);
    assert(lines.some((line) => line.includes("deno run")));
    assertEquals(lines.filter((line) => line.includes("--lock=")), [], rows.join(" "));
  }
  const postgres = refusal("native", ["--db", "postgres://u@127.0.0.1/d"]).lines;
  assert(
    postgres.some((line) => line.includes(" run --lock=") && line.includes("postgres/deno.lock")),
  );
  const sqlite = refusal("native", ["--db", "sqlite:/d/rows"]).lines;
  assertEquals(sqlite.some((line) => line.includes("--lock=")), false, "it needs no driver");
});
