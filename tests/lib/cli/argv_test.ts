import { assert, assertEquals } from "@std/assert";
import { parseOptions, type ServerArguments } from "../../../lib/cli/argv.ts";
import { INIT_OPTIONS, SERVER_OPTIONS } from "../../../lib/cli/option_table.ts";

function parse(argv: readonly string[]): ServerArguments {
  return parseOptions(argv, SERVER_OPTIONS);
}

Deno.test("parseOptions() fills in memcached's defaults", () => {
  const { values, errors, ignored, given } = parse([]);
  assertEquals(errors, []);
  assertEquals(ignored, []);
  assertEquals(given.size, 0);
  assertEquals(values.port, 11211);
  assertEquals(values.memoryLimitBytes, 64 * 1024 * 1024);
  assertEquals(values.maxItemSizeBytes, 1024 * 1024);
  assertEquals(values.connLimit, 1024);
  assertEquals(values.threads, NaN);
  assertEquals(values.unixMask, 0o700);
  assertEquals(values.listen, ["127.0.0.1"]);
  assertEquals(values.maxconnsFast, true);
  assertEquals(values.idleTimeoutSec, 0);
});

Deno.test("parseOptions() takes values glued on, behind =, and as the next word", () => {
  for (
    const argv of [
      ["-m64"],
      ["-m", "64"],
      ["-m64m"],
      ["--memory-limit=64"],
      [
        "--memory-limit",
        "64",
      ],
      ["-m", "65536k"],
      ["-m0.0625g"],
      ["-Mm64"],
      ["-v", "-m64mb"],
    ]
  ) {
    const { values, errors } = parse(argv);
    assertEquals(errors, [], argv.join(" "));
    assertEquals(values.memoryLimitBytes, 64 * 1024 * 1024, argv.join(" "));
  }
  assertEquals(parse(["-p", "-1"]).values.port, -1);
  assertEquals(parse(["-U-1"]).values.udpPort, -1);
  assertEquals(parse(["-l127.0.0.1:1"]).values.listen, ["127.0.0.1:1"]);
  assertEquals(parse(["-s/tmp/a=b"]).values.unixSocket, "/tmp/a=b");
  assertEquals(parse(["-a", "0770"]).values.unixMask, 0o770);
});

Deno.test("parseOptions() counts -v, and takes the last of what is given twice", () => {
  assertEquals(parse(["-vv"]).values.verbose, 2);
  assertEquals(parse(["-v", "-v", "--verbose"]).values.verbose, 3);
  assertEquals(parse(["-p", "1", "-p", "2"]).values.port, 2);
});

Deno.test("parseOptions() collects lists over commas, semicolons and repetition", () => {
  assertEquals(parse(["-l", "a,b;c", "-l", "d"]).values.listen, ["a", "b", "c", "d"]);
  const { values, errors } = parse([
    "-o",
    "idle_timeout=5,no_maxconns_fast",
    "-oslab_layout=memcached",
  ]);
  assertEquals(errors, []);
  assertEquals(values.idleTimeoutSec, 5);
  assertEquals(values.maxconnsFast, false);
  assertEquals(values.slabLayout, "memcached");
});

Deno.test("parseOptions() accepts options without effect, and gives the reason of each", () => {
  const line =
    "-d -k -r -L -u memcache -N 2 -o modern,no_hashexpand,slab_automove,slab_automove=2,no_slab_automove," +
    "hashpower=20,hash_algorithm=jenkins,lru_crawler,no_lru_maintainer,relaxed_privileges,drop_privileges," +
    "no_drop_privileges,no_inline_ascii_resp,track_sizes,slab_sizes=100-200";
  const { errors, ignored } = parse(line.split(" "));
  assertEquals(errors, []);
  assertEquals(ignored.slice(0, 6).map(({ option }) => option), [
    "-d (--daemon)",
    "-k (--lock-memory)",
    "-r (--enable-coredumps)",
    "-L (--enable-largepages)",
    "-u (--user)",
    "-N (--napi-ids)",
  ]);
  assertEquals(
    ignored.find(({ option }) => option === "-o no_hashexpand")?.reason,
    "the hash table starts small and grows with the items; there is nothing to set",
  );
  for (const { option, reason } of ignored) assert(reason.length > 20, `${option}: ${reason}`);
});

Deno.test("parseOptions() names everything that is wrong at once", () => {
  // deno-fmt-ignore
  const { errors } = parse(["--prot", "1", "-m", "abc", "-t0", "-I", "2g", "-B", "asci", "-a", "9", "-f", "x",
    "-o", "idel_timeout=3,idle_timeout=-1,maxconns_fast=1,ext_path=/x,slab_layout,no_idle_timeout",
    "-Z", "-q", "--daemon=yes", "stray", "-c"]);
  assertEquals(errors, [
    "unknown option --prot; did you mean --port or --protocol?",
    '-m (--memory-limit) "abc": must be a size from 1m to 15g (a bare number is in MiB)',
    '-t (--threads) "0": must be a whole number from 1 to 256',
    '-I (--max-item-size) "2g": must be a size from 1k to 1g (a bare number is in bytes)',
    '-B (--protocol) "asci": must be auto, ascii or binary',
    '-a (--unix-mask) "9": must be an octal number, 0 to 777',
    '-f (--slab-growth-factor) "x": must be a number from 1.001 to 1024',
    "unknown option -o idel_timeout; did you mean idle_timeout?",
    '-o idle_timeout "-1": must be a whole number from 0 to 2147483647',
    '-o maxconns_fast "1": takes no value',
    "-o ext_path is not supported: items live in memory only; raise -m, or run several servers",
    '-o slab_layout "": needs a value',
    "unknown option -o no_idle_timeout; did you mean idle_timeout?",
    "unknown option -q",
    '-d (--daemon) "yes": takes no value',
    'unexpected argument "stray": options start with -',
    "-c (--conn-limit): needs a value (connections)",
  ]);
});

Deno.test("parseOptions() reads memcached's words of -o as second names, at the server only", () => {
  for (
    const argv of [["-o", "idle_timeout=5,no_maxconns_fast"], [
      "--idle-timeout=5",
      "--no-maxconns-fast",
    ]]
  ) {
    const { values, given, errors } = parse(argv);
    assertEquals(errors, []);
    assertEquals([values.idleTimeoutSec, values.maxconnsFast], [5, false]);
    assertEquals([...given].filter((name) => name !== "extended"), [
      "idle-timeout",
      "maxconns-fast",
    ]);
  }
  assertEquals(parse(["-o", "port=1"]).errors, ["unknown option -o port"]);
  assertEquals(parse(["--no-port"]).errors, ["unknown option --no-port"]);
  assertEquals(parseOptions(["-o", "idle_timeout=5"], INIT_OPTIONS).errors.length, 2);
});

Deno.test("a misspelt name, or a word that a choice does not have, does not compile", () => {
  const { values, given } = parse([]);
  // @ts-expect-error: no row has this name.
  assertEquals(values["idle-timeuot"], undefined);
  // @ts-expect-error: no row has this name.
  assertEquals(given.has("idle-timeuot"), false);
  // @ts-expect-error: no row of the server has this name.
  assertEquals(values.change, undefined);
  // @ts-expect-error: `--log-format` has no such word.
  assertEquals(values.logFormat === "xml", false);
});

Deno.test("parseOptions() says did you mean only when a word is near", () => {
  assertEquals(parse(["--threds=2"]).errors, [
    "unknown option --threds; did you mean --threads?",
  ]);
  assertEquals(parse(["--xyzzy"]).errors, ["unknown option --xyzzy"]);
  assertEquals(parse(["-y"]).errors, ["unknown option -y"]);
});

Deno.test("parseOptions() is not confused by names that objects have", () => {
  for (const name of ["__proto__", "constructor", "toString", "a.b"]) {
    assertEquals(parse([`--${name}=1`]).errors.length, 1, name);
    assertEquals(parse(["-o", `${name}=1`]).errors.length, 1, name);
  }
});

Deno.test("parseOptions() says why -m ends at 15g", () => {
  assertEquals(parse(["-m", "16g"]).errors, [
    '-m (--memory-limit) "16g": must be a size from 1m to 15g (a bare number is in MiB); ' +
    "one server addresses at most 15 GiB; run several for more",
  ]);
});

Deno.test("options of earlier versions are gone, and the message names what takes their place", () => {
  const gone = "is gone: an origin has no list of caches; make each of them a node (--origin), " +
    "see docs/nodes.md";
  assertEquals(parse(["--cache", "h:1", "--cache=h:2"]).errors, [
    `--cache ${gone}`,
    `--cache ${gone}`,
  ]);
  for (const name of ["caches", "cache-timeout", "cache-login", "cache-ca-cert"]) {
    assertEquals(parse([`--${name}`, "1"]).errors, [`--${name} ${gone}`]);
  }
  assertEquals(parse(["--constructor"]).errors, ["unknown option --constructor"]);
});
